/*
 * forecast.h - when a job that comes now should be done, so that one which cannot make its deadline is refused at once instead of waiting for it.
 *
 * The quickest of the first workers to be free, plus what goes before the job at the rate of all its workers: its own client's waiting jobs, and of every
 * other client one for each of those (clients take turns), but never more than there are. Batches count at their best. It errs towards too
 * early: what is admitted may still expire. For an ensemble that no worker has whole it is the longest way through its steps.
 * Threads: owner.
 */
#ifndef FORECAST_H
#define FORECAST_H

#include "admit.h"
#include "broker_state.h"

/*
 * remaining_us: to the job's deadline, 0 = it has none. PEN_ERR_DEADLINE with the expected time when the job would be later than that by more than a quarter;
 * *ret_expect_us is that time then, else 0. OK also where nothing can be said: no worker, or one whose speed is not known.
 */
enum pen_status forecast_check(const struct broker *broker, const struct session *session,
                               const struct admission *admission, uint64_t remaining_us, uint64_t *ret_expect_us,
                               struct pen_error *reterr);

/* How long a new job of this model would wait, as a hint for clients that were told BUSY. */
uint64_t forecast_wait_hint_us(const struct model *model);

#endif
