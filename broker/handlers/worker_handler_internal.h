/*
 * worker_handler_internal.h - what worker_handler.c (all that workers say) and worker_result.c (results) share.
 * Threads: owner.
 */
#ifndef WORKER_HANDLER_INTERNAL_H
#define WORKER_HANDLER_INTERNAL_H

#include "broker_state.h"

/* A message that a worker should not have sent is counted and logged. */
void worker_bad_message(struct broker *broker, const char *reason);

#endif
