#include "run/numerics.h"

#include <math.h>
#include <stdio.h>

#define F16_MOST 65504.0f

/* What is wrong with a value by the checks that are on; NULL = nothing. */
static const char *fault_of(const struct numerics *n, float value, enum pen_check *ret_how)
{
    *ret_how = isfinite(value) ? n->f16_range : n->numbers;
    if (*ret_how == PEN_CHECK_OFF) {
        return NULL;
    }
    return isnan(value) ? "NaN" : isinf(value) ? "infinity" : fabsf(value) > F16_MOST ? "a value beyond f16" : NULL;
}

enum pen_status numerics_look(struct numerics *n, const struct node *node, const float *values, size_t count,
                              struct pen_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        enum pen_check how = PEN_CHECK_OFF;
        const char *fault = fault_of(n, values[i], &how);
        if (fault == NULL) {
            continue;
        }
        if (how == PEN_CHECK_FAIL) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s) produced %s at element %zu", node->name,
                                 node->origin, fault, i);
        }
        if (n->note[0] == '\0') {
            snprintf(n->note, sizeof n->note, "node %.100s (%.60s) produced %s at element %zu", node->name,
                     node->origin, fault, i);
        }
        if (n->numbers != PEN_CHECK_FAIL && n->f16_range != PEN_CHECK_FAIL) {
            return PEN_OK; /* the first is enough */
        }
    }
    return PEN_OK;
}
