/*
 * back_internal.h - what back.c (all that workers say) and back_result.c (results) share.
 * Threads: owner.
 */
#ifndef BACK_INTERNAL_H
#define BACK_INTERNAL_H

#include "broker_state.h"

/* A message that a worker should not have sent is counted and logged. */
void back_bad_message(struct broker *broker, const char *reason);

#endif
