/*
 * control_watch.h - what `penstock trace` and `penstock log-level` ask of the broker.
 * Threads: owner.
 */
#ifndef CONTROL_WATCH_H
#define CONTROL_WATCH_H

#include "broker_state.h"

/* Fills *ret_text (malloc'ed: free(3) it) with JSON; the question is that of trace_answer (trace_write.h). */
enum pen_status control_trace(struct broker *broker, const char *question, char **ret_text, struct pen_error *reterr);

/* "LEVEL", "LEVEL broker", "LEVEL workers" or "LEVEL NAME" changes log levels; "" changes nothing. *ret_text says
   which level the broker has now. */
enum pen_status control_log_level(struct broker *broker, const char *argument, char **ret_text,
                                  struct pen_error *reterr);

#endif
