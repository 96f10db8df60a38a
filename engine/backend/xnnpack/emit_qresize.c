#include <math.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/*
 * Resize of bytes [batch, height, width, channels], linear, in TFLite's fixed point: per axis a table of two neighbours and a weight of 11 bits, made once
 * per shape; per pixel one vector loop over its channels.
 */
struct qaxis {
    size_t in, out;
    int32_t *low, *high, *weight; /* [out]; weight: of `high`, of 2048 */
};

struct qresize {
    struct qaxis h, w;
    size_t batch, channels;
    uint8_t flip;
};

struct qresize_job {
    const struct qresize *q;
    const uint8_t *x;
    uint8_t *y;
};

static bool qresize_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *sizes = node_in(g, n, 3);
    uint32_t count = 0;
    const int64_t *axes = node_ints(n, ATTR_axes, &count);
    bool plane = axes != NULL && count == 2 && axes[0] == 1 && axes[1] == 2 && x->shape.rank == 4;
    bool bytes = dtype_is(x, PEN_DTYPE_U8) || dtype_is(x, PEN_DTYPE_I8);
    bool known = sizes != NULL && sizes->data != NULL && node_text_is(n, ATTR_mode, "linear", false);
    return (plane && bytes && known) || refuse(ret_reason, "bytes of another layout, or sizes are not constant");
}

/* Positions in single precision, as XNNPACK has them. */
static bool axis_make(struct build *b, struct qaxis *a)
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    bool corners = node_text_is(b->n, key, "align_corners", false), half = node_text_is(b->n, key, "half_pixel", false);
    size_t less = corners && a->out != 1 ? 1 : 0;
    float scale = (float)(a->in - less) / (float)(a->out - less);
    a->low = build_alloc(b, a->out * 3 * sizeof *a->low);
    if (a->low == NULL) {
        return false;
    }
    a->high = a->low + a->out;
    a->weight = a->high + a->out;
    for (size_t i = 0; i < a->out; i++) {
        float at = (float)i * scale;
        at = half ? at + (0.5f * scale - 0.5f) : at;
        at = fminf(fmaxf(at, 0.0f), (float)(a->in - 1));
        a->low[i] = (int32_t)at;
        a->high[i] = a->low[i] + 1 < (int32_t)a->in ? a->low[i] + 1 : (int32_t)a->in - 1;
        a->weight[i] = (int32_t)lrintf((at - (float)a->low[i]) * 2048.0f);
    }
    return true;
}

/* One output row. */
static void row_task(void *context, size_t unit)
{
    const struct qresize_job *j = context;
    const struct qresize *q = j->q;
    size_t oy = unit % q->h.out, row = q->w.in * q->channels, image = unit / q->h.out * q->h.in;
    const uint8_t *top = j->x + (image + (size_t)q->h.low[oy]) * row;
    const uint8_t *bottom = j->x + (image + (size_t)q->h.high[oy]) * row;
    uint8_t *y = j->y + unit * q->w.out * q->channels;
    for (size_t ox = 0; ox < q->w.out; ox++, y += q->channels) {
        size_t left = (size_t)q->w.low[ox] * q->channels, right = (size_t)q->w.high[ox] * q->channels;
        const uint8_t *corners[4] = {top + left, top + right, bottom + left, bottom + right};
        isa_int()->bilinear(corners, q->w.weight[ox], q->h.weight[oy], q->flip, y, q->channels);
    }
}

static enum pen_status qresize_run(struct step *s, struct run *r)
{
    const struct qresize *q = s->state;
    struct qresize_job j = {q, s->in[0], s->out[0]};
    parallel(r, row_task, &j, q->batch * q->h.out);
    return PEN_OK;
}

static enum pen_status qresize_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct qresize *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (x->rank != 4 || y->rank != 4 || x->dim[0] != y->dim[0] || x->dim[3] != y->dim[3] || shape_elements(x) == 0 ||
        x->dim[1] > INT32_MAX || x->dim[2] > INT32_MAX) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in more than height and width");
    }
    q->batch = (size_t)x->dim[0];
    q->channels = (size_t)x->dim[3];
    q->flip = build_in(b, 0)->dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    q->h = (struct qaxis){.in = (size_t)x->dim[1], .out = (size_t)y->dim[1]};
    q->w = (struct qaxis){.in = (size_t)x->dim[2], .out = (size_t)y->dim[2]};
    if (!axis_make(b, &q->h) || !axis_make(b, &q->w)) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for the table of neighbours");
    }
    b->step->state = q;
    b->step->run = qresize_run;
    return PEN_OK;
}

const struct emitter emit_qresize = {qresize_supports, NULL, qresize_build};
