/*
 * choose.h - decides which jobs of a lane start now, on which worker, and in which batch: it gathers and weighs the
 * workers, then closes the batch or lets the lane wait.
 * Threads: owner.
 */
#ifndef CHOOSE_H
#define CHOOSE_H

#include "broker_state.h"

/* What the plan says. */
enum plan_kind {
    PLAN_WAIT, /* no job of this lane can start now; wake_us says when to ask again */
    PLAN_LOAD, /* as PLAN_WAIT; in the meantime the offer's worker shall load the model */
    PLAN_RUN,
};

struct plan {
    struct offer *offer;
    struct job *first; /* the lane's head, or a job behind it that is better off on another worker: match_aside */
    uint32_t rows;
    enum close_reason reason;
    uint64_t expect_us;          /* of the batch */
    uint64_t row_us, own_row_us; /* expected time of one row: on the quickest worker; on the chosen one */
    struct decision decision;
};

/* Decides only; dispatch.c carries the plan out. */
enum plan_kind choose(struct broker *broker, struct lane *lane, struct plan *ret_plan);
/* What choose would weigh for this lane now. */
void choose_weigh(struct broker *broker, struct lane *lane, struct decision *ret_decision);
/* True for a suspect's last chance: it must have a worker to itself, so that no other job can be blamed if the
   worker dies. */
bool choose_must_isolate(const struct broker *broker, const struct job *head);

#endif
