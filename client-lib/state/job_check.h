/*
 * job_check.h - are a caller's options a job? What is wrong with them is told before anything is packed.
 *
 * Threads: any (pure function).
 */
#ifndef JOB_CHECK_H
#define JOB_CHECK_H

#include <stddef.h>

#include "penstock/client.h"

#define JOB_PARAMETERS_MAX  64u
#define JOB_TAGS_MAX        16u
#define DETACHED_SECRET_MAX 128 /* bytes of the text that opens a detached job's lock */

/* *ret_bytes: of all inputs. INVALID or TOO_LARGE with a sentence. */
enum pen_status job_check(const struct pen_job_options *options, size_t *ret_bytes, struct pen_error *reterr);

#endif
