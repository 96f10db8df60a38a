/*
 * numerics.h - the checks of an operator's values: NaN and infinity (flag check_numerics), what f16 cannot hold (flag f16_range_check).
 * Threads: as the session.
 */
#ifndef RUN_NUMERICS_H
#define RUN_NUMERICS_H

#include "graph/graph.h"
#include "penstock/engine.h"

struct numerics {
    enum pen_check numbers, f16_range;
    char note[256]; /* WARN: the first of the latest run; "" = none */
};

static inline bool numerics_wanted(const struct numerics *n)
{
    return n->numbers != PEN_CHECK_OFF || n->f16_range != PEN_CHECK_OFF;
}

/* The f32 values that `node` made: notes the first bad one (WARN), or refuses it with a sentence that names the node (FAIL, PEN_ERR_INVALID). */
enum pen_status numerics_look(struct numerics *numerics, const struct node *node, const float *values, size_t count,
                              struct pen_error *reterr);

#endif
