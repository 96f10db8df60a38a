/*
 * choose.h - what of a lane starts now, where, and in which company: workers are gathered and weighed, the batch is closed, or the lane waits.
 * Threads: owner.
 */
#ifndef CHOOSE_H
#define CHOOSE_H

#include "broker_state.h"

/* What starts. */
enum plan_kind {
    PLAN_WAIT, /* nothing of this lane can start now; its wake_us says when to ask again */
    PLAN_LOAD, /* the same, and the offer's worker is to load the model meanwhile */
    PLAN_RUN,
};

struct plan {
    struct offer *offer;
    struct job *first; /* the lane's head, or one that is better off elsewhere: match_aside */
    uint32_t rows;
    const char *reason;
    uint64_t expect_us;          /* of the batch */
    uint64_t row_us, own_row_us; /* of one row: where it is quickest, and there */
    struct decision decision;
};

/* Decides, and does nothing: that is dispatch.c. */
enum plan_kind choose(struct broker *broker, struct lane *lane, struct plan *ret_plan);
/* What would be weighed for this lane now. */
void choose_weigh(struct broker *broker, struct lane *lane, struct decision *ret_decision);
/* A suspect's last chance: on a worker that has nothing else, so that nobody is blamed for somebody else's deed. */
bool choose_must_isolate(const struct broker *broker, const struct job *head);

#endif
