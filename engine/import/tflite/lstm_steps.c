/*
 * LSTM step by step, for what ONNX's operator does not have: coupled gates, projections, layer normalisation, other activations. The products with the data
 * are one for all steps. Source: TFLite's LstmStep: i, f from the cell before, o from the new one; normalised sums get their bias after the coefficients.
 */
#include <string.h>

#include "import/build/scan.h"
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

#define NORM_EPSILON 1e-8f

enum { GATE_I, GATE_F, GATE_C, GATE_O };

struct steps {
    struct call *c;
    struct tf_scan scan;
    const struct lstm_in *at;
    bool coupled, normal;
    uint32_t gates; /* 3 when coupled */
    int64_t units;
    enum tf_activation act;
    float cell_clip, projection_clip;
    bool hybrid, asymmetric;
    uint32_t recurrent, bias[4], hole[4], norm[4], projection, projection_bias; /* in the body */
};

/* The gates side by side; a coupled input gate is left out. [sum of units, in] */
static uint32_t stacked(struct steps *s, uint32_t first)
{
    uint32_t parts[4], n = 0;
    for (uint32_t i = s->coupled ? 1 : 0; i < 4; i++)
        parts[n++] = lite_real(s->c, first + i);
    return build_axis_op(s->c->b, OP_Concat, parts, n, 0);
}

static uint32_t turned(struct build *b, uint32_t x)
{
    return build_transpose(b, x, (int64_t[]){1, 0}, 2);
}

/* What a product takes: floats in front of 8-bit weights are rounded. */
static uint32_t product_data(struct steps *s, struct build *b, uint32_t x)
{
    if (!s->hybrid)
        return x;
    uint32_t y = build_1(b, OP_RowRounding, x);
    build_int(b, ATTR_axis, -1);
    if (!s->asymmetric)
        build_int(b, ATTR_symmetric, 1);
    return y;
}

/* y [..., steps, batch, all gates] = x w' for every step at once, of input `data` and the weights from input `weights` on */
static uint32_t product(struct steps *s, uint32_t data, uint32_t weights, bool time_major, bool reverse)
{
    struct build *b = s->c->b;
    uint32_t x = lite_real(s->c, data);
    if (lite_tensor(s->c, data)->shape.rank == 2) /* one step */
        x = build_unsqueeze(b, x, 0);
    x = time_major ? x : build_transpose(b, x, (int64_t[]){1, 0, 2}, 3);
    x = reverse ? tf_reverse(b, x, 0) : x;
    return build_2(b, OP_MatMul, product_data(s, b, x), turned(b, stacked(s, weights)));
}

static uint32_t products(struct steps *s, bool time_major, bool reverse)
{
    uint32_t y = product(s, s->at->data, s->at->weights, time_major, reverse);
    if (!s->at->aux)
        return y;
    return build_2(s->c->b, OP_Add, y, product(s, s->at->aux_data, s->at->aux, time_major, reverse));
}

static void body_constants(struct steps *s, const uint32_t *outer)
{
    s->recurrent = tf_scan_constant(&s->scan, outer[0]);
    for (uint32_t i = 0; i < 4; i++) {
        s->bias[i] = tf_scan_constant(&s->scan, outer[1 + i]);
        s->hole[i] = tf_scan_constant(&s->scan, outer[5 + i]);
        s->norm[i] = tf_scan_constant(&s->scan, outer[9 + i]);
    }
    s->projection = tf_scan_constant(&s->scan, outer[13]);
    s->projection_bias = tf_scan_constant(&s->scan, outer[14]);
}

/* (z - mean) / sqrt(variance + epsilon) * coefficients */
static uint32_t normalised(struct build *b, uint32_t z, uint32_t coefficients)
{
    uint32_t last = build_i64(b, (int64_t[]){-1}, 1);
    uint32_t off = build_2(b, OP_Sub, z, build_reduce(b, OP_ReduceMean, z, last, true));
    uint32_t variance = build_reduce(b, OP_ReduceMean, build_2(b, OP_Mul, off, off), last, true);
    uint32_t root = build_1(b, OP_Sqrt, build_2(b, OP_Add, variance, build_f32_scalar(b, NORM_EPSILON)));
    return build_2(b, OP_Mul, build_2(b, OP_Div, off, root), coefficients);
}

static uint32_t gate(struct steps *s, uint32_t all, uint32_t which, uint32_t cell)
{
    struct build *b = &s->scan.inner;
    int64_t from = (int64_t)(which - (s->coupled ? 1 : 0)) * s->units;
    uint32_t z = build_slice(b, all, 1, from, from + s->units, 1);
    if (s->hole[which] != VALUE_NONE)
        z = build_2(b, OP_Add, z, build_2(b, OP_Mul, cell, s->hole[which]));
    if (s->normal)
        z = normalised(b, z, s->norm[which]);
    if (s->bias[which] != VALUE_NONE)
        z = build_2(b, OP_Add, z, s->bias[which]);
    return which == GATE_C ? tf_activate(b, z, s->act, 0.0f) : build_1(b, OP_Sigmoid, z);
}

static uint32_t clipped(struct build *b, uint32_t x, float limit)
{
    if (limit <= 0.0f)
        return x;
    return build_3(b, OP_Clip, x, build_f32_scalar(b, -limit), build_f32_scalar(b, limit));
}

/* c' = f c + i g, h' = o a(c'), projected when there is a projection */
static void step(struct steps *s, uint32_t next[2])
{
    struct build *b = &s->scan.inner;
    uint32_t before = s->scan.states[1];
    uint32_t rows = product_data(s, b, s->scan.states[0]);
    uint32_t more = build_2(b, OP_MatMul, rows, turned(b, s->recurrent));
    uint32_t all = build_2(b, OP_Add, s->scan.x, more);
    uint32_t forget = gate(s, all, GATE_F, before);
    uint32_t open = s->coupled ? build_2(b, OP_Sub, build_f32_scalar(b, 1.0f), forget) : gate(s, all, GATE_I, before);
    uint32_t fresh = build_2(b, OP_Mul, open, gate(s, all, GATE_C, VALUE_NONE));
    next[1] = clipped(b, build_2(b, OP_Add, build_2(b, OP_Mul, forget, before), fresh), s->cell_clip);
    uint32_t h = build_2(b, OP_Mul, gate(s, all, GATE_O, next[1]), tf_activate(b, next[1], s->act, 0.0f));
    if (s->projection != VALUE_NONE) {
        h = build_3(b, OP_Gemm, product_data(s, b, h), s->projection, s->projection_bias);
        build_int(b, ATTR_transB, 1);
        h = clipped(b, h, s->projection_clip);
    }
    next[0] = h;
}

static void outer_constants(struct steps *s, uint32_t outer[15])
{
    struct call *c = s->c;
    const struct lstm_in *at = s->at;
    outer[0] = stacked(s, at->recurrent);
    for (uint32_t i = 0; i < 4; i++) {
        bool there = i > 0 || !s->coupled;
        uint32_t hole = i == GATE_I ? 0 : i == GATE_F ? 1 : 2;
        outer[1 + i] = there && lite_tensor(c, at->bias + i) ? lite_real(c, at->bias + i) : VALUE_NONE;
        bool peeps = i != GATE_C && there && lite_tensor(c, at->peephole + hole);
        outer[5 + i] = peeps ? lite_real(c, at->peephole + hole) : VALUE_NONE;
        outer[9 + i] = s->normal && there ? lite_real(c, at->norm + i) : VALUE_NONE;
    }
    outer[13] = lite_tensor(c, at->projection) ? lite_real(c, at->projection) : VALUE_NONE;
    outer[14] = lite_tensor(c, at->projection + 1) ? lite_real(c, at->projection + 1) : VALUE_NONE;
}

static bool steps_init(struct steps *s)
{
    struct call *c = s->c;
    const struct tensor *forget = lite_tensor(c, s->at->weights + GATE_F), *bias = lite_tensor(c, s->at->bias + GATE_F);
    s->coupled = !lite_tensor(c, s->at->weights + GATE_I);
    s->normal = s->at->norm && lite_tensor(c, s->at->norm + GATE_F);
    s->act = lite_activation(c, 0);
    s->cell_clip = fb_float(&c->options, 1, 0.0f);
    s->projection_clip = fb_float(&c->options, 2, 0.0f);
    for (uint32_t i = s->coupled ? 1 : 0; i < 4; i++) {
        if (!lite_tensor(c, s->at->weights + i) || !lite_tensor(c, s->at->recurrent + i) ||
            (s->at->aux && !lite_tensor(c, s->at->aux + i)) || (s->normal && !lite_tensor(c, s->at->norm + i)))
            forget = NULL;
    }
    if (!forget || !bias || forget->shape.rank != 2 || !lite_tensor(c, s->at->state) || !lite_tensor(c, s->at->cell)) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks weights or states");
        return false;
    }
    s->units = forget->shape.dim[0];
    s->hybrid = lite_hybrid(c, s->at->data, s->at->weights + GATE_F);
    s->asymmetric = fb_bool(&c->options, s->at->asymmetric, false);
    return true;
}

/* Joined constants as one: the body takes nothing else. */
static uint32_t folded(struct build *b, uint32_t value)
{
    int64_t dims[2] = {build_dim(b, value, 0), build_dim(b, value, 1)};
    const struct node *n = value == VALUE_NONE ? NULL : &b->g->nodes[b->g->values[value].producer];
    if (!n || dims[0] < 0 || dims[1] < 0)
        return value;
    struct shape shape = shape_of(2, dims);
    size_t bytes = (size_t)(dims[0] * dims[1]) * sizeof(float), at = 0;
    uint8_t *to = graph_alloc(b->g, bytes + 64);
    for (uint32_t i = 0; to && i < n->in_count; i++) {
        const struct value *v = build_value(b, n->in[i]);
        if (!v || !v->data || v->dtype != PEN_DTYPE_F32 || at + v->bytes > bytes)
            return value;
        memcpy(to + at, v->data, v->bytes);
        at += v->bytes;
    }
    return to && at == bytes ? build_const(b, PEN_DTYPE_F32, &shape, to, bytes, false) : value;
}

uint32_t lite_lstm_steps(struct call *c, const struct lstm_in *at, bool reverse, bool time_major)
{
    struct steps s = {.c = c, .at = at};
    struct build *b = c->b;
    uint32_t outer[15], next[2] = {VALUE_NONE, VALUE_NONE};
    if (!steps_init(&s))
        return VALUE_NONE;
    uint32_t data = products(&s, time_major, reverse), start[] = {lite_real(c, at->state), lite_real(c, at->cell)};
    outer_constants(&s, outer);
    outer[0] = folded(b, outer[0]);
    if (!tf_scan_begin(&s.scan, b, data, VALUE_NONE, start, 2))
        return VALUE_NONE;
    body_constants(&s, outer);
    step(&s, next);
    uint32_t y = tf_scan_end(&s.scan, next);
    y = reverse ? tf_reverse(b, y, 0) : y;
    return time_major ? y : build_transpose(b, y, (int64_t[]){1, 0, 2}, 3);
}
