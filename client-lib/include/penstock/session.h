/**
 * @file penstock/session.h
 * The handles of libpenstock; penstock/client.h and penstock/admin.h say what is done with them.
 */
#ifndef PENSTOCK_SESSION_H
#define PENSTOCK_SESSION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PEN_API __attribute__((visibility("default")))
#else
#define PEN_API
#endif

/** A session with one broker. Threads: any. */
typedef struct pen_client pen_client;
/** A submitted job. Threads: any; each handle is freed once. */
typedef struct pen_job pen_job;
/** How a job ended. Immutable; threads: any may read, one frees. */
typedef struct pen_result pen_result;

/** Time-out that never runs out, for the functions that take `timeout_us`. */
#define PEN_FOREVER INT64_C(-1)

#ifdef __cplusplus
}
#endif
#endif
