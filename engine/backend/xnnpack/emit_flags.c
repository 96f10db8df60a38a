#include <math.h>

#include "backend/xnnpack/emitters.h"

/* IsInf and IsNaN: f32 or f64 to bool (PyTorch asks for infinities in f64). */
struct flags {
    bool nan, positive, negative, wide;
    size_t count;
};

struct flags_job {
    const struct flags *q;
    const void *x;
    uint8_t *y;
};

static bool flags_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    return dtype_is(x, PEN_DTYPE_F32) || dtype_is(x, PEN_DTYPE_F64) || refuse(ret_reason, "only f32 and f64");
}

static void flags_task(void *context, size_t unit)
{
    const struct flags_job *j = context;
    const struct flags *q = j->q;
    size_t to = q->count - unit * CHUNK < CHUNK ? q->count : (unit + 1) * CHUNK;
    for (size_t i = unit * CHUNK; i < to; i++) {
        double v = q->wide ? ((const double *)j->x)[i] : (double)((const float *)j->x)[i];
        bool infinite = (q->positive && v == (double)INFINITY) || (q->negative && v == -(double)INFINITY);
        j->y[i] = q->nan ? v != v : infinite;
    }
}

static enum pen_status flags_run(struct step *s, struct run *r)
{
    const struct flags *q = s->state;
    struct flags_job j = {q, s->in[0], s->out[0]};
    parallel(r, flags_task, &j, (q->count + CHUNK - 1) / CHUNK);
    return PEN_OK;
}

static enum pen_status flags_build(struct build *b)
{
    struct flags *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->nan = b->n->op == OP_IsNaN;
    q->wide = build_in(b, 0)->dtype == PEN_DTYPE_F64;
    q->positive = node_int(b->n, ATTR_detect_positive, 1) != 0;
    q->negative = node_int(b->n, ATTR_detect_negative, 1) != 0;
    q->count = (size_t)shape_elements(&build_in(b, 0)->shape);
    b->step->state = q;
    b->step->run = flags_run;
    return PEN_OK;
}

const struct emitter emit_flags = {flags_supports, NULL, flags_build};
