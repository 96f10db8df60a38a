/*
 * cost.h - what a client pays for a run (fair_queue.h): the forecast when the run begins, corrected to the measured
 * time when it is over.
 *
 * Each run is settled once, even if its job has ended. The client that began a run pays for it, also when a follower
 * has taken it over. Hedges are free, because the broker starts them.
 * Threads: owner.
 */
#ifndef COST_H
#define COST_H

#include "broker_state.h"

#define COST_STRAY 4u /* times the forecast */

/*
 * The slot is answered: charges its rows' part of its run's time (compute_us, of all rows of the run). The time is
 * converted to that of the worker where the model is quickest, so that the client pays for its work and not for the
 * worker it was given. A job that did not run costs nothing. A stray measurement (the machine stood still) is not the
 * client's fault: it counts as at most COST_STRAY times the forecast, because a client that was charged too much waits
 * long. Several strays in a row change the forecast (latency.h).
 */
void cost_settle(struct broker *broker, struct dispatch *dispatch, uint32_t slot, enum pen_status status,
                 const struct result_facts *facts);
/* The run was lost with its worker: nobody pays. */
void cost_lost(struct broker *broker, struct dispatch *dispatch, uint32_t slot);

#endif
