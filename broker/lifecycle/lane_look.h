/*
 * lane_look.h - lanes whose jobs may have to go elsewhere, begin in steps, or be told that nobody runs them.
 *
 * Nothing walks over lanes while jobs leave them: each lane gets an effect (EFFECT_LANE_LOOK), and whoever hears of it deals with that lane alone, LANE_BATCH
 * jobs at a time. The lane outlives the batch, for the jobs that are still in it refer to it; it takes its effect out when it goes.
 * Threads: owner.
 */
#ifndef LANE_LOOK_H
#define LANE_LOOK_H

#include "broker_state.h"

/* Each lane that holds jobs is looked at: at each beat. */
void lanes_look(struct broker *broker);
/* EFFECT_WORKER_JOINED, _UPDATED, _DRAINS, _ENDED, _LEFT: the same, for what workers can run has changed. */
bool lanes_fleet_changed(struct broker *broker, struct effect *effect);
/*
 * EFFECT_LANE_LOOK, the last to hear: jobs that nobody can run wait for --worker-wait for a worker to come back, then they are told; at once where none is on
 * its way.
 */
bool lane_unserved(struct broker *broker, struct effect *effect);

#endif
