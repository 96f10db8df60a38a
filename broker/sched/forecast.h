/*
 * forecast.h - predicts when a job that comes now should be done, so that a job that cannot meet its deadline is
 * refused at once.
 *
 * The forecast is the time on the quickest of the workers that will be free first, plus the time for all workers to run
 * the jobs ahead. Ahead are the waiting jobs of the same client and, because clients take turns, as many of each other
 * client as that one has. Batches count at their best size. The forecast is rather too early than too late, so an
 * admitted job may still expire. For an ensemble that no worker has whole, it is the longest path through its steps.
 * Threads: owner.
 */
#ifndef FORECAST_H
#define FORECAST_H

#include "admit.h"
#include "broker_state.h"

/*
 * remaining_us: time to the job's deadline, 0 = none. PEN_ERR_DEADLINE with the expected time when the job would be
 * late by more than a quarter; *ret_expect_us is then that time, else 0. OK also when no forecast is possible: no
 * worker, or one of unknown speed.
 */
enum pen_status forecast_check(const struct broker *broker, const struct session *session,
                               const struct admission *admission, uint64_t remaining_us, uint64_t *ret_expect_us,
                               struct pen_error *reterr);

/* Why a job of the model cannot run at once, however idle the pool is. */
enum wake {
    WAKE_NONE,     /* a worker has it in memory */
    WAKE_LOADING,  /* workers offer it, and none has it in memory */
    WAKE_NO_WORKER /* no worker that may run it is connected */
};

/* *ret_us: expected time until the first worker has it, from the time that its last load took, or that the last worker
   took to come; 0 = not known. For an ensemble that no worker has whole: that of its slowest step. */
enum wake forecast_wake(const struct broker *broker, const struct model *model, const struct demand *demand,
                        uint64_t *ret_us);

/* How long a new job of this model would wait; a hint for clients that are told BUSY. */
uint64_t forecast_wait_hint_us(const struct model *model);

#endif
