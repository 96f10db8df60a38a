/*
 * lane_look.h - looks at lanes whose jobs may have to go elsewhere, begin in steps, or be answered because no worker
 * can run them.
 *
 * No loop walks over lanes while jobs leave them. Instead each lane gets an effect (EFFECT_LANE_LOOK), and its
 * subscribers handle that lane alone, LANE_BATCH jobs at a time. The lane lives longer than such a batch, because the
 * jobs that are still in it refer to it. A lane that is freed takes its effect out first.
 * Threads: owner.
 */
#ifndef LANE_LOOK_H
#define LANE_LOOK_H

#include "broker_state.h"

/* Posts the effect for each lane that holds jobs: once per beat. */
void lanes_look(struct broker *broker);
/* EFFECT_WORKER_JOINED, _UPDATED, _DRAINS, _ENDED, _LEFT: the same, because the jobs that workers can run have
   changed. */
bool lanes_fleet_changed(struct broker *broker, struct effect *effect);
/*
 * EFFECT_LANE_LOOK, the last subscriber: jobs that no worker can run wait for --worker-wait, because a worker may come
 * back. Then they are answered with an error; at once where no worker is on its way.
 */
bool lane_unserved(struct broker *broker, struct effect *effect);

#endif
