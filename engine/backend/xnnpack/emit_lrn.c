#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* LRN: y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta. x is [outer, channels, inner] in either layout. */
struct lrn {
    size_t outer, channels, inner, size;
    float alpha, beta, bias;
};

struct lrn_job {
    const struct lrn *q;
    const float *x;
    float *y;
};

static bool lrn_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return (all_f32(g, n) && node_in(g, n, 0)->shape.rank >= 3 && node_int(n, ATTR_size, 0) > 0) ||
           refuse(ret_reason, "only f32 with a size");
}

/* One channel of one outer index: inner floats. */
static void channel_task(void *context, size_t unit)
{
    const struct lrn_job *j = context;
    const struct lrn *q = j->q;
    size_t o = unit / q->channels, c = unit % q->channels;
    size_t before = (q->size - 1) / 2, after = q->size - 1 - before;
    size_t first = c < before ? 0 : c - before, last = c + after < q->channels ? c + after : q->channels - 1;
    const float *x = j->x + o * q->channels * q->inner;
    float *y = j->y + (o * q->channels + c) * q->inner;
    const struct own *own = isa_own();
    own->fold_rows(FOLD_SQUARE, x + first * q->inner, q->inner, last - first + 1, y, q->inner);
    own->affine(y, y, q->inner, 0.0f, q->alpha / (float)q->size, NULL, NULL);
    own->binary(BINARY_ADD, y, 1, &q->bias, 0, y, q->inner);
    own->binary(BINARY_POW, y, 1, &q->beta, 0, y, q->inner);
    own->binary(BINARY_DIV, x + c * q->inner, 1, y, 1, y, q->inner);
}

/* Channels last: a pixel is a row of channels. */
static void pixel_task(void *context, size_t unit)
{
    const struct lrn_job *j = context;
    const struct lrn *q = j->q;
    struct lrn one = *q;
    one.outer = 1;
    struct lrn_job pixel = {&one, j->x + unit * q->channels, j->y + unit * q->channels};
    for (size_t c = 0; c < q->channels; c++) {
        channel_task(&pixel, c);
    }
}

static enum pen_status lrn_run(struct step *s, struct run *r)
{
    const struct lrn *q = s->state;
    struct lrn_job j = {q, s->in[0], s->out[0]};
    if (q->inner == 1) {
        parallel(r, pixel_task, &j, q->outer);
    } else {
        parallel(r, channel_task, &j, q->outer * q->channels);
    }
    return PEN_OK;
}

static enum pen_status lrn_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct lrn *q = build_alloc(b, sizeof *q);
    if (q == NULL || !shape_equal(x, &build_out(b, 0)->shape)) {
        return build_fail(b, q == NULL ? PEN_ERR_NO_MEMORY : PEN_ERR_SHAPE,
                          "input and output differ in shape, or no memory");
    }
    int32_t at = node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC ? x->rank - 1 : 1;
    q->outer = q->inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        if (d != at) {
            *(d < at ? &q->outer : &q->inner) *= (size_t)x->dim[d];
        }
    }
    q->channels = (size_t)x->dim[at];
    q->size = (size_t)node_int(b->n, ATTR_size, 1);
    q->alpha = node_float(b->n, ATTR_alpha, 1e-4f);
    q->beta = node_float(b->n, ATTR_beta, 0.75f);
    q->bias = node_float(b->n, ATTR_bias, 1.0f);
    b->step->state = q;
    b->step->run = lrn_run;
    return PEN_OK;
}

const struct emitter emit_lrn = {lrn_supports, NULL, lrn_build};
