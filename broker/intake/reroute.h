/*
 * reroute.h - moves waiting jobs that named no version to another version when theirs has gone away.
 *
 * It moves them at once when the workers withdrew the version. When its workers were lost, it waits for half of
 * --worker-wait, because they may come back.
 * Threads: owner.
 */
#ifndef REROUTE_H
#define REROUTE_H

#include "broker_state.h"

/* EFFECT_LANE_LOOK, the first subscriber: moves the lane's jobs to a version that takes them. */
bool reroute_lane(struct broker *broker, struct effect *effect);

#endif
