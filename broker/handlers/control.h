/*
 * control.h - answers to `models`, `workers`, `stats`, `drain` and `ping`.
 * Threads: owner.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "broker_state.h"

/* Answers a packed ControlRequest with a CONTROL_REPLY of the same serial. */
void control_answer(struct broker *broker, struct session *session, const uint8_t *meta, size_t bytes);

#endif
