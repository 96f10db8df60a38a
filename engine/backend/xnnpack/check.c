#include "backend/xnnpack/check.h"

#include <inttypes.h>
#include <math.h>

enum pen_status check_numerics(const struct shape_env *env, const struct step *s, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < s->n->out_count; i++) {
        const float *y = s->out[i];
        if (y == NULL || env->facts[s->n->out[i]].dtype != PEN_DTYPE_F32) {
            continue;
        }
        int64_t count = shape_elements(&env->facts[s->n->out[i]].shape);
        for (int64_t k = 0; k < count; k++) {
            if (!isfinite(y[k])) {
                return pen_error_set(reterr, PEN_ERR_INVALID,
                                     "node %s (%s) made %s at element %" PRId64 " of output %u", s->n->name,
                                     op_def(s->n->op)->name, isnan(y[k]) ? "NaN" : "infinity", k, i);
            }
        }
    }
    return PEN_OK;
}
