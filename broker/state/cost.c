#include "cost.h"

/* Of the whole run. The forecast was for the rows of the dispatch; those of the run may be more. */
static uint64_t counted_us(const struct dispatch *dispatch, uint32_t rows, enum pen_status status, uint64_t compute_us)
{
    uint64_t most_us = COST_STRAY * dispatch->expect_us;
    if (dispatch->rows && rows > dispatch->rows)
        most_us = most_us * rows / dispatch->rows;
    if (compute_us == 0 && status == PEN_OK)
        return 1; /* less than the clock tells */
    return compute_us < most_us ? compute_us : most_us;
}

void cost_settle(struct broker *broker, struct dispatch *dispatch, uint32_t slot, enum pen_status status,
                 const struct result_facts *facts)
{
    struct dispatch_slot *own = &dispatch->slots[slot];
    struct shared_run run = dispatch_run(dispatch, facts);
    double part = run.rows > own->rows ? (double)own->rows / run.rows : 1;
    double quickest = dispatch->own_row_us ? (double)dispatch->row_us / (double)dispatch->own_row_us : 1;
    fair_queue_settle(&broker->models.fair_queue, &own->cost,
                      (double)counted_us(dispatch, run.rows, status, facts->compute_us) * part * quickest);
}

void cost_lost(struct broker *broker, struct dispatch *dispatch, uint32_t slot)
{
    fair_queue_settle(&broker->models.fair_queue, &dispatch->slots[slot].cost, 0);
}
