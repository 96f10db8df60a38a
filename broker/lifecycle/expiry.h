/*
 * expiry.h - what the default timeout of a model with timeout_action DELAY does to a job that waited for it: it loses its turn, not its answer.
 *
 * A deadline of the job's own means that its client waits no longer: such a job ends. One that only outlived the model's default goes behind its client's
 * other jobs of the same priority, without a deadline from then on.
 * Threads: owner.
 */
#ifndef EXPIRY_H
#define EXPIRY_H

#include "broker_state.h"

#define ENVELOPE_DEADLINE_AT 56u /* proto/PROTOCOL.md */
#define ENVELOPE_PRIORITY_AT 68u
#define ENVELOPE_FLAGS_AT    6u

#define EXPIRY_TEXT_BYTES 192u

/* Whose deadline has passed, and what the job was doing meanwhile. */
const char *expiry_text(const struct job *job, char text[EXPIRY_TEXT_BYTES]);
/* Its deadline is its model's, and delays. Not of a step: it has the deadline of its whole. */
bool expiry_delays(const struct job *job);
/* It goes behind what waits now, without a deadline. */
void expiry_delay(struct broker *broker, struct job *job);

#endif
