#include <math.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/norm_last.h"

/*
 * Normalisations over runs of memory: x is [rows, n]. LayerNormalization and RMSNormalization scale per element of a row; InstanceNormalization and
 * GroupNormalization (NCHW) per channel, a row holding `channels` of them; y = (x - mean) / sqrt(variance + epsilon) * scale + bias.
 */
struct norm {
    size_t rows, n;
    size_t channels, groups; /* per row; rows of one batch element. 0 = scale and bias per element */
    float epsilon;
    bool rms;
};

struct norm_job {
    const struct norm *q;
    const float *x, *scale, *bias;
    float *y, *mean, *inverse;
    size_t unit_rows;
};

static bool norm_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    int32_t rank = node_in(g, n, 0)->shape.rank;
    if (n->op == OP_InstanceNormalization || n->op == OP_GroupNormalization) {
        bool last = node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
        return (rank >= 3 && (!last || n->op == OP_InstanceNormalization)) || refuse(ret_reason, "channels last");
    }
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), rank) >= 0) || refuse(ret_reason, "axis out of range");
}

static void channels_scale(const struct norm_job *j, size_t row, const float *x, float *y, float mean, float inverse)
{
    const struct norm *q = j->q;
    const struct own *own = isa_own();
    size_t pixels = q->n / q->channels, first = row % q->groups * q->channels;
    for (size_t c = 0; c < q->channels; c++) {
        float gain = inverse * j->scale[first + c];
        own->affine(x + c * pixels, y + c * pixels, pixels, mean, gain, NULL, NULL);
        own->binary(BINARY_ADD, y + c * pixels, 1, j->bias + first + c, 0, y + c * pixels, pixels);
    }
}

static void row_norm(const struct norm_job *j, size_t row)
{
    const struct norm *q = j->q;
    const struct own *own = isa_own();
    const float *x = j->x + row * q->n;
    float *y = j->y + row * q->n;
    float mean = q->rms ? 0.0f : own->fold(FOLD_SUM, x, q->n) / (float)q->n;
    float inverse = 1.0f / sqrtf(own->square_sum(x, q->n, mean) / (float)q->n + q->epsilon);
    if (q->channels > 0) {
        channels_scale(j, row, x, y, mean, inverse);
    } else {
        own->affine(x, y, q->n, mean, inverse, j->scale, j->bias);
    }
    if (j->mean != NULL) {
        j->mean[row] = mean;
    }
    if (j->inverse != NULL) {
        j->inverse[row] = inverse;
    }
}

static void norm_task(void *context, size_t unit)
{
    const struct norm_job *j = context;
    for (size_t row = unit * j->unit_rows; row < (unit + 1) * j->unit_rows && row < j->q->rows; row++) {
        row_norm(j, row);
    }
}

static enum pen_status norm_run(struct step *s, struct run *r)
{
    const struct norm *q = s->state;
    struct norm_job j = {
        .q = q, .x = s->in[0], .scale = s->in[1], .bias = s->n->in_count > 2 ? s->in[2] : NULL, .y = s->out[0]};
    j.mean = s->n->out_count > 1 ? s->out[1] : NULL;
    j.inverse = s->n->out_count > 2 ? s->out[2] : NULL;
    j.unit_rows = CHUNK / q->n + 1;
    parallel(r, norm_task, &j, (q->rows + j.unit_rows - 1) / j.unit_rows);
    return PEN_OK;
}

static bool sizes_read(const struct build *b, const struct shape *x, struct norm *q)
{
    int64_t want = 0;
    if (b->n->op == OP_InstanceNormalization || b->n->op == OP_GroupNormalization) {
        int64_t groups = b->n->op == OP_GroupNormalization ? node_int(b->n, ATTR_num_groups, 0) : x->dim[1];
        if (groups < 1 || x->dim[1] % groups != 0) {
            return false;
        }
        q->rows = (size_t)(x->dim[0] * groups);
        q->n = (size_t)shape_elements(x) / q->rows;
        q->channels = (size_t)(x->dim[1] / groups);
        q->groups = (size_t)groups;
        want = x->dim[1];
    } else {
        q->rows = q->n = 1;
        for (int32_t d = 0; d < x->rank; d++) {
            *(d < shape_axis(node_int(b->n, ATTR_axis, -1), x->rank) ? &q->rows : &q->n) *= (size_t)x->dim[d];
        }
        want = (int64_t)q->n;
    }
    const struct fact *scale = build_in(b, 1), *bias = build_in(b, 2);
    return q->n > 0 && shape_elements(&scale->shape) == want && (bias == NULL || shape_elements(&bias->shape) == want);
}

static bool statistics_fit(const struct build *b, const struct norm *q)
{
    for (uint32_t i = 1; i < b->n->out_count; i++) {
        if (build_out(b, i) != NULL && shape_elements(&build_out(b, i)->shape) != (int64_t)q->rows) {
            return false;
        }
    }
    return true;
}

static enum pen_status norm_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    if (b->n->op == OP_InstanceNormalization && node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC) {
        return norm_last_build(b);
    }
    struct norm *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!shape_equal(x, &build_out(b, 0)->shape) || !sizes_read(b, x, q) || !statistics_fit(b, q)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "scale, bias or result have other sizes than the normalised dims");
    }
    q->epsilon = node_float(b->n, ATTR_epsilon, 1e-5f);
    q->rms = b->n->op == OP_RMSNormalization;
    b->inplace = 1;
    b->step->state = q;
    b->step->run = norm_run;
    return PEN_OK;
}

const struct emitter emit_norm = {norm_supports, NULL, norm_build};

/* ---- BatchNormalization in inference, either layout: y = x * gain + offset per channel ---- */

struct batch {
    size_t outer, channels, inner; /* x is [outer, channels, inner] */
    float epsilon;
};

struct batch_job {
    const struct batch *q;
    const float *x, *gain, *offset;
    float *y;
    size_t unit_rows;
};

static bool batch_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return (all_f32(g, n) && n->out_count == 1 && node_int(n, ATTR_training_mode, 0) == 0 &&
            node_in(g, n, 0)->shape.rank >= 2) ||
           refuse(ret_reason, "only inference in f32");
}

static void batch_task(void *context, size_t unit)
{
    const struct batch_job *j = context;
    const struct batch *q = j->q;
    const struct own *own = isa_own();
    if (q->inner == 1) { /* channels last: rows of channels */
        for (size_t row = unit * j->unit_rows; row < (unit + 1) * j->unit_rows && row < q->outer; row++) {
            own->affine(j->x + row * q->channels, j->y + row * q->channels, q->channels, 0.0f, 1.0f, j->gain,
                        j->offset);
        }
        return;
    }
    const float *x = j->x + unit * q->inner;
    float *y = j->y + unit * q->inner;
    own->affine(x, y, q->inner, 0.0f, j->gain[unit % q->channels], NULL, NULL);
    own->binary(BINARY_ADD, y, 1, j->offset + unit % q->channels, 0, y, q->inner);
}

static enum pen_status batch_run(struct step *s, struct run *r)
{
    const struct batch *q = s->state;
    const float *scale = s->in[1], *bias = s->in[2], *mean = s->in[3], *variance = s->in[4];
    float *gain = s->scratch, *offset = gain + q->channels;
    for (size_t c = 0; c < q->channels; c++) {
        gain[c] = scale[c] / sqrtf(variance[c] + q->epsilon);
        offset[c] = bias[c] - mean[c] * gain[c];
    }
    struct batch_job j = {q, s->in[0], gain, offset, s->out[0], CHUNK / q->channels + 1};
    parallel(r, batch_task, &j, q->inner == 1 ? (q->outer + j.unit_rows - 1) / j.unit_rows : q->outer * q->channels);
    return PEN_OK;
}

static enum pen_status batch_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct batch *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t at = node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC ? x->rank - 1 : 1;
    q->outer = q->inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        if (d != at) {
            *(d < at ? &q->outer : &q->inner) *= (size_t)x->dim[d];
        }
    }
    q->channels = (size_t)x->dim[at];
    q->epsilon = node_float(b->n, ATTR_epsilon, 1e-5f);
    for (uint32_t i = 1; i < 5; i++) {
        if (build_in(b, i) == NULL || shape_elements(&build_in(b, i)->shape) != (int64_t)q->channels) {
            return build_fail(b, PEN_ERR_SHAPE, "a parameter does not have one element per channel");
        }
    }
    if (!shape_equal(x, &build_out(b, 0)->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in shape");
    }
    b->inplace = 1;
    b->step->scratch_bytes = 2 * q->channels * sizeof(float);
    b->step->state = q;
    b->step->run = batch_run;
    return PEN_OK;
}

const struct emitter emit_batch_norm = {batch_supports, NULL, batch_build};
