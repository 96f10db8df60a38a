/*
 * flow_desk.h - a desk with one worker, "one", of models that differ in how long they take and what may wait: "slow" (50 ms), "fast" (100 us), "batchy" (up to 4
 * rows, 3 ms of delay), "small" (2 may wait), "timed" (7 ms by default). At most 5 jobs wait for any of them.
 * Threads: owner.
 */
#ifndef TEST_FLOW_DESK_H
#define TEST_FLOW_DESK_H

#include "desk.h"

enum { FLOW_MODELS = 5, FLOW_CLIENT = 1, FLOW_WORKER = 901 /* peers */ };

extern const struct wire_model flow_models[FLOW_MODELS];

struct desk *flow_desk(uint32_t slots);
/* Job `sequence` of the client, 0xA; `job` says the rest. */
void flow_submit(struct desk *desk, const char *model, uint64_t sequence, struct wire_job job);

#endif
