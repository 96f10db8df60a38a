#include "backend/xnnpack/emit.h"

#include "backend/xnnpack/plan.h"

const struct fact *build_in(const struct build *b, uint32_t index)
{
    if (index >= b->n->in_count || b->n->in[index] == VALUE_NONE) {
        return NULL;
    }
    return &b->env->facts[b->n->in[index]];
}

const struct fact *build_out(const struct build *b, uint32_t index)
{
    if (index >= b->n->out_count || b->n->out[index] == VALUE_NONE) {
        return NULL;
    }
    return &b->env->facts[b->n->out[index]];
}

enum pen_status build_fail(struct build *b, enum pen_status status, const char *what)
{
    return pen_error_set(b->reterr, status, "xnnpack: node %s (%s): %s", b->n->name,
                         b->n->origin != NULL ? b->n->origin : op_def(b->n->op)->name, what);
}

bool refuse(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return false;
}

bool dtype_is(const struct value *v, enum pen_dtype dtype)
{
    return v != NULL && v->dtype == dtype;
}

bool all_f32(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->dtype != PEN_DTYPE_F32) {
            return false;
        }
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        const struct value *v = node_out(g, n, i);
        if (v != NULL && v->dtype != PEN_DTYPE_F32) {
            return false;
        }
    }
    return true;
}

bool in_constant(const struct graph *g, const struct node *n, uint32_t index)
{
    const struct value *v = node_in(g, n, index);
    return v != NULL && v->data != NULL;
}

bool dims_known(const struct value *v, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++) {
        if (i >= v->shape.rank || v->shape.dim[i] == SHAPE_DIM_UNKNOWN) {
            return false;
        }
    }
    return true;
}

static void alone(void (*task)(void *context, size_t unit), void *context, size_t units)
{
    for (size_t i = 0; i < units; i++) {
        task(context, i);
    }
}

void parallel(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units)
{
    if (r->team != NULL && units > 1) {
        team_run(r->team, task, context, units);
    } else {
        alone(task, context, units);
    }
}

void parallel_short(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units)
{
    if (r->team != NULL && units > 1) {
        team_run_short(r->team, task, context, units);
    } else {
        alone(task, context, units);
    }
}

#define SHORT_MACS 1000000 /* fewer are short beside a time slice (team_run_short) */

void parallel_macs(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units, size_t macs)
{
    if (macs < SHORT_MACS) {
        parallel_short(r, task, context, units);
    } else {
        parallel(r, task, context, units);
    }
}
