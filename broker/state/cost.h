/*
 * cost.h - what a client pays for a run (fair_queue.h): its forecast when it begins, what it took when it is over. Settled once, whatever becomes of the job.
 *
 * Who began a run pays for it, also when a follower has taken it over; hedges are the broker's own idea and free.
 * Threads: owner.
 */
#ifndef COST_H
#define COST_H

#include "broker_state.h"

#define COST_STRAY 4u /* times the forecast */

/*
 * The slot is answered: its rows' part of what the batch took (compute_us of the whole), in time of the worker where the model is quickest - for its work, not
 * for where it had to run. What did not run took nothing. A stray (the machine stood still) is not the client's doing: it counts as at most COST_STRAY times
 * the forecast, for beside many others a client waits long for what it was charged too much; several in a row are the next forecast (latency.h).
 */
void cost_settle(struct broker *broker, struct dispatch *dispatch, uint32_t slot, enum pen_status status,
                 uint64_t compute_us);
/* The run was lost with its worker: nobody pays. */
void cost_lost(struct broker *broker, struct dispatch *dispatch, uint32_t slot);

#endif
