#include "backend/xnnpack/emitters.h"

/* Abs, Neg, Sign and Relu of i32 and i64. What has no opposite stays, as in two's complement. */
struct unary_int {
    enum op op;
    size_t count;
    bool wide;
};

struct unary_int_job {
    const struct unary_int *q;
    const void *x;
    void *y;
};

bool unary_int_takes(enum pen_dtype dtype, enum op op)
{
    bool integers = dtype == PEN_DTYPE_I32 || dtype == PEN_DTYPE_I64;
    return integers && (op == OP_Abs || op == OP_Neg || op == OP_Sign || op == OP_Relu);
}

static int64_t apply(enum op op, int64_t v)
{
    switch (op) {
    case OP_Abs:
        return v < 0 ? (int64_t)(0 - (uint64_t)v) : v;
    case OP_Neg:
        return (int64_t)(0 - (uint64_t)v);
    case OP_Sign:
        return (v > 0) - (v < 0);
    default:
        return v > 0 ? v : 0;
    }
}

static void unary_int_task(void *context, size_t unit)
{
    const struct unary_int_job *j = context;
    size_t from = unit * CHUNK, end = j->q->count - from < CHUNK ? j->q->count : from + CHUNK;
    for (size_t i = from; i < end; i++) {
        if (j->q->wide) {
            ((int64_t *)j->y)[i] = apply(j->q->op, ((const int64_t *)j->x)[i]);
        } else {
            ((int32_t *)j->y)[i] = (int32_t)apply(j->q->op, ((const int32_t *)j->x)[i]);
        }
    }
}

static enum pen_status unary_int_run(struct step *s, struct run *r)
{
    const struct unary_int *q = s->state;
    struct unary_int_job j = {q, s->in[0], s->out[0]};
    parallel(r, unary_int_task, &j, (q->count + CHUNK - 1) / CHUNK);
    return PEN_OK;
}

enum pen_status unary_int_build(struct build *b)
{
    struct unary_int *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *q = (struct unary_int){.op = b->n->op,
                            .count = (size_t)shape_elements(&build_out(b, 0)->shape),
                            .wide = build_in(b, 0)->dtype == PEN_DTYPE_I64};
    b->inplace = 1;
    b->step->state = q;
    b->step->run = unary_int_run;
    return PEN_OK;
}
