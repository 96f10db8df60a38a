/*
 * result.h - how a job ended: views into the received messages, or a status and a sentence of our own.
 *
 * Threads: built by one thread, then immutable.
 */
#ifndef RESULT_H
#define RESULT_H

#include "incoming.h"
#include "penstock/client.h"

/* Takes the frames out of `in` (incoming_fini remains the caller's). Never fails but without memory: a malformed answer becomes a result with
 * PEN_ERR_CORRUPT. NULL without memory. */
struct pen_result *result_from(struct incoming *in);

/* A result made here. NULL without memory. */
struct pen_result *result_local(enum pen_status status, const char *text);

/* The one that stands in when memory is out; static, pen_result_free() ignores it. */
struct pen_result *result_no_memory(void);

void result_round_trip(struct pen_result *result, uint64_t us);

#endif
