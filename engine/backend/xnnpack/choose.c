#include "backend/xnnpack/choose.h"

#include "backend/xnnpack/choose_known.h"

enum pen_status choose_offer(struct build *b, struct rivals *rivals)
{
    rivals->settled = !build_config(b)->measure_kernels;
    rivals->take(b->step, rivals->rule);
    if (rivals->settled) {
        return PEN_OK;
    }
    struct rivals *own = build_alloc(b, sizeof *own);
    if (own == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *own = *rivals;
    b->step->rivals = own;
    known_lock();
    rivals->settled = known_settle(b->step, own);
    known_unlock();
    return PEN_OK;
}
