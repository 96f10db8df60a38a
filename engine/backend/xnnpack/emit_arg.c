#include "backend/xnnpack/emitters.h"

/* ArgMax and ArgMin of f32, i64, i32 and bytes over one axis: x is [outer, axis, inner], y is i64 [outer, inner]. */
struct arg {
    size_t outer, axis, inner;
    bool least, last; /* smallest instead of largest; of equals the last */
    enum pen_dtype dtype;
};

struct arg_job {
    const struct arg *q;
    const void *x;
    int64_t *y;
};

static bool arg_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!dtype_is(x, PEN_DTYPE_F32) && !dtype_is(x, PEN_DTYPE_U8) && !dtype_is(x, PEN_DTYPE_I8) &&
        !dtype_is(x, PEN_DTYPE_I64) && !dtype_is(x, PEN_DTYPE_I32)) {
        return refuse(ret_reason, "only f32, i64, i32 and bytes");
    }
    return (x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, 0), x->shape.rank) >= 0) ||
           refuse(ret_reason, "axis out of range");
}

static void arg_task(void *context, size_t unit)
{
    const struct arg_job *j = context;
    const struct arg *q = j->q;
    for (size_t i = 0; i < q->inner; i++) {
        const float *x = (const float *)j->x + unit * q->axis * q->inner + i;
        float best = x[0];
        size_t at = 0;
        for (size_t a = 1; a < q->axis; a++) {
            float v = x[a * q->inner];
            bool better = q->least ? v < best : v > best;
            if (better || (q->last && v == best) || (v != v && best == best)) { /* the first NaN wins, as in NumPy */
                best = v;
                at = a;
            }
        }
        j->y[unit * q->inner + i] = (int64_t)at;
    }
}

/* Turned so that the largest unsigned byte is looked for. */
static void byte_task(void *context, size_t unit)
{
    const struct arg_job *j = context;
    const struct arg *q = j->q;
    uint8_t flip = (uint8_t)((q->dtype == PEN_DTYPE_I8 ? 0x80 : 0) ^ (q->least ? 0xff : 0));
    for (size_t i = 0; i < q->inner; i++) {
        const uint8_t *x = (const uint8_t *)j->x + unit * q->axis * q->inner + i;
        uint8_t best = x[0] ^ flip;
        size_t at = 0;
        for (size_t a = 1; a < q->axis; a++) {
            uint8_t v = x[a * q->inner] ^ flip;
            if (v > best || (q->last && v == best)) {
                best = v;
                at = a;
            }
        }
        j->y[unit * q->inner + i] = (int64_t)at;
    }
}

#define INTEGER_TASK(name, type)                                                                                       \
    static void name(void *context, size_t unit)                                                                       \
    {                                                                                                                  \
        const struct arg_job *j = context;                                                                             \
        const struct arg *q = j->q;                                                                                    \
        for (size_t i = 0; i < q->inner; i++) {                                                                        \
            const type *x = (const type *)j->x + unit * q->axis * q->inner + i;                                        \
            size_t at = 0;                                                                                             \
            for (size_t a = 1; a < q->axis; a++) {                                                                     \
                type v = x[a * q->inner], best = x[at * q->inner];                                                     \
                at = (q->least ? v < best : v > best) || (q->last && v == best) ? a : at;                              \
            }                                                                                                          \
            j->y[unit * q->inner + i] = (int64_t)at;                                                                   \
        }                                                                                                              \
    }

INTEGER_TASK(i64_task, int64_t)
INTEGER_TASK(i32_task, int32_t)

static enum pen_status arg_run(struct step *s, struct run *r)
{
    const struct arg *q = s->state;
    struct arg_job j = {q, s->in[0], s->out[0]};
    parallel(r,
             q->dtype == PEN_DTYPE_F32   ? arg_task
             : q->dtype == PEN_DTYPE_I64 ? i64_task
             : q->dtype == PEN_DTYPE_I32 ? i32_task
                                         : byte_task,
             &j, q->outer);
    return PEN_OK;
}

static enum pen_status arg_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct arg *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), x->rank);
    q->outer = q->inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        if (d != axis) {
            *(d < axis ? &q->outer : &q->inner) *= (size_t)x->dim[d];
        }
    }
    q->dtype = build_in(b, 0)->dtype;
    q->axis = (size_t)x->dim[axis];
    q->least = b->n->op == OP_ArgMin;
    q->last = node_int(b->n, ATTR_select_last_index, 0) != 0;
    if (q->axis == 0 || shape_elements(&build_out(b, 0)->shape) != (int64_t)(q->outer * q->inner)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "the result has another size");
    }
    b->step->state = q;
    b->step->run = arg_run;
    return PEN_OK;
}

const struct emitter emit_arg = {arg_supports, NULL, arg_build};
