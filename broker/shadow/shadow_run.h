/*
 * shadow_run.h - copies of jobs as jobs of the broker: how they start, end, and are compared with their originals.
 *
 * A copy is submitted after its original, with the lowest priority and a deadline of its own; it is neither cached,
 * counted as a job, nor charged to its tenant, and nobody gets its answer. It is not made while jobs of either version
 * wait. So an original is answered as it would have been without it; what a copy costs is the time of a worker's slot.
 * Threads: owner.
 */
#ifndef SHADOW_RUN_H
#define SHADOW_RUN_H

#include "broker_state.h"

#define SHADOW_UUID_FIRST (UINT64_MAX - 2u * TENANTS_MAX) /* uuids from here on are the broker's own sessions' */

extern const struct job_owner shadow_owner;

/* EFFECT_SHADOW_MOVES: copies what was chosen, and compares what has ended. */
bool shadow_moves(struct broker *broker, struct effect *effect);

#endif
