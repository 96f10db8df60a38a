/*
 * expiry.h - the default timeout of a model with timeout_action DELAY: a waiting job that reaches it loses its turn,
 * but is still answered.
 *
 * A job with a deadline of its own ends at that deadline, because its client waits no longer. A job that only reached
 * the model's default timeout goes behind its client's other jobs of the same priority, and has no deadline from then
 * on.
 * Threads: owner.
 */
#ifndef EXPIRY_H
#define EXPIRY_H

#include "broker_state.h"

#define EXPIRY_TEXT_BYTES 192u

/* Says whose deadline has passed, the client's or the model's, and what the job was doing. */
const char *expiry_text(const struct job *job, char text[EXPIRY_TEXT_BYTES]);
/* True when the deadline is the model's default and its action is DELAY. Never for a step of an ensemble: its
   deadline is that of the whole. */
bool expiry_delays(const struct job *job);
/* Puts the job behind those that wait now, without a deadline. */
void expiry_delay(struct broker *broker, struct job *job);

#endif
