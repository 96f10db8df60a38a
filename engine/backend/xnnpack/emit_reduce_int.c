#include "backend/xnnpack/emitters.h"
#include "graph/axes.h"

/*
 * Reductions of integers and truth values. Two tables, made once per shape: where the elements of a group lie, and where each group begins. Sums and products
 * wrap, as on the reference.
 */
struct reduce_int {
    enum op op;
    enum pen_dtype dtype;
    size_t outputs, group;
    size_t *first; /* [outputs] */
    size_t *step;  /* [group], from the first */
};

struct reduce_job {
    const struct reduce_int *q;
    const void *x;
    void *y;
    size_t rows; /* outputs of one unit */
};

bool reduce_int_takes(const struct value *x, const struct value *y, enum op op)
{
    bool fold = op == OP_ReduceSum || op == OP_ReduceProd || op == OP_ReduceMax || op == OP_ReduceMin;
    bool type = x->dtype == PEN_DTYPE_I32 || x->dtype == PEN_DTYPE_I64 || x->dtype == PEN_DTYPE_U8 ||
                x->dtype == PEN_DTYPE_I8 || (x->dtype == PEN_DTYPE_BOOL && op != OP_ReduceSum && op != OP_ReduceProd);
    return fold && type && dtype_is(y, x->dtype);
}

#define FOLD(name, type, wide)                                                                                         \
    static void name(const struct reduce_job *j, size_t from, size_t to)                                               \
    {                                                                                                                  \
        const struct reduce_int *q = j->q;                                                                             \
        for (size_t o = from; o < to; o++) {                                                                           \
            const type *x = (const type *)j->x + q->first[o];                                                          \
            type acc = x[0];                                                                                           \
            for (size_t i = 1; i < q->group; i++) {                                                                    \
                type v = x[q->step[i]];                                                                                \
                acc = q->op == OP_ReduceSum    ? (type)((wide)acc + (wide)v)                                           \
                      : q->op == OP_ReduceProd ? (type)((wide)acc * (wide)v)                                           \
                      : q->op == OP_ReduceMax  ? (v > acc ? v : acc)                                                   \
                                               : (v < acc ? v : acc);                                                   \
            }                                                                                                          \
            ((type *)j->y)[o] = acc;                                                                                   \
        }                                                                                                              \
    }

FOLD(fold_i64, int64_t, uint64_t)
FOLD(fold_i32, int32_t, uint32_t)
FOLD(fold_i8, int8_t, uint32_t)
FOLD(fold_u8, uint8_t, uint32_t)

static void reduce_task(void *context, size_t unit)
{
    const struct reduce_job *j = context;
    size_t from = unit * j->rows, to = j->q->outputs - from < j->rows ? j->q->outputs : from + j->rows;
    switch (j->q->dtype) {
    case PEN_DTYPE_I64:
        fold_i64(j, from, to);
        break;
    case PEN_DTYPE_I32:
        fold_i32(j, from, to);
        break;
    case PEN_DTYPE_I8:
        fold_i8(j, from, to);
        break;
    default:
        fold_u8(j, from, to);
        break;
    }
}

static enum pen_status reduce_run(struct step *s, struct run *r)
{
    const struct reduce_int *q = s->state;
    struct reduce_job j = {q, s->in[0], s->out[0], CHUNK / q->group + 1};
    parallel(r, reduce_task, &j, (q->outputs + j.rows - 1) / j.rows);
    return PEN_OK;
}

/* Offsets of all places over the dims that are (or are not) reduced, the last dim fastest. */
static void offsets_fill(const struct shape *x, const bool *gone, bool reduced, size_t *to, size_t count)
{
    size_t stride = 1, done = 1;
    to[0] = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        size_t n = (size_t)x->dim[d];
        if (gone[d] == reduced) { /* slower than those before: copies of what is there, further on */
            for (size_t i = done; i < done * n && i < count; i++) {
                to[i] = to[i % done] + i / done * stride;
            }
            done *= n;
        }
        stride *= n;
    }
}

enum pen_status reduce_int_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct reduce_int *q = build_alloc(b, sizeof *q);
    bool gone[PEN_MAX_RANK];
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!reduced_axes_of(b->n, build_in(b, 1), x->rank, gone)) {
        return build_fail(b, PEN_ERR_SHAPE, "an axis is out of range");
    }
    *q = (struct reduce_int){.op = b->n->op, .dtype = build_in(b, 0)->dtype, .outputs = 1, .group = 1};
    for (int32_t d = 0; d < x->rank; d++) {
        *(gone[d] ? &q->group : &q->outputs) *= (size_t)x->dim[d];
    }
    if (q->group == 0 || q->outputs == 0) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "a reduction of nothing");
    }
    if (q->outputs != (size_t)shape_elements(&build_out(b, 0)->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    q->first = build_alloc(b, q->outputs * sizeof *q->first);
    q->step = build_alloc(b, q->group * sizeof *q->step);
    if (q->first == NULL || q->step == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    offsets_fill(x, gone, false, q->first, q->outputs);
    offsets_fill(x, gone, true, q->step, q->group);
    b->step->state = q;
    b->step->run = reduce_run;
    return PEN_OK;
}
