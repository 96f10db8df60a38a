/* Layers that go through their steps one after the other: what ONNX's recurrent operators do not do in one. */
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"
#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

/* ---- scanning ------------------------------------------------------------------------------------------------------------------ */

static uint32_t body_input(struct layer_scan *s, const char *name, enum pen_dtype dtype)
{
    struct shape shape = shape_unknown();
    return build_input(&s->inner, name, strlen(name), dtype, &shape);
}

bool layer_scan_begin(struct layer_scan *s, struct kcall *c, uint32_t x, uint32_t mask, const uint32_t *start,
                      uint32_t states)
{
    *s = (struct layer_scan){
        .c = c, .outer = c->b, .state_count = states, .data = x, .data_mask = mask, .mask = VALUE_NONE};
    if (c->b->status == PEN_OK && graph_new_child(c->b->g, &s->body) != PEN_OK)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    if (c->b->status != PEN_OK)
        return false;
    s->inner = (struct build){
        .g = s->body, .missing = c->b->missing, .reterr = c->b->reterr, .name = c->b->name, .origin = c->b->origin};
    for (uint32_t i = 0; i < states; i++) {
        s->start[i] = start[i];
        s->states[i] = body_input(s, i == 0 ? "state" : "cell", PEN_DTYPE_F32);
    }
    s->x = body_input(s, "step", PEN_DTYPE_F32);
    if (mask != VALUE_NONE)
        s->mask = body_input(s, "counts", PEN_DTYPE_BOOL);
    c->b = &s->inner;
    return true;
}

/* A step that does not count leaves the state as it was: mask [batch] against states [1, batch, units]. */
static uint32_t kept(struct layer_scan *s, uint32_t next, uint32_t before)
{
    if (s->mask == VALUE_NONE)
        return next;
    return build_3(&s->inner, OP_Where, build_unsqueeze(&s->inner, s->mask, 1), next, before);
}

uint32_t layer_scan_end(struct layer_scan *s, const uint32_t *next)
{
    struct build *b = s->outer, *inner = &s->inner;
    uint32_t out[3], in[4], n = s->state_count, count = n;
    for (uint32_t i = 0; i <= n && inner->status == PEN_OK; i++) {
        uint32_t value = build_1(inner, OP_Identity, i < n ? kept(s, next[i], s->states[i]) : s->body->outputs[0]);
        if (inner->status == PEN_OK && graph_output_add(s->body, value) != PEN_OK)
            build_stop(inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
    build_fini(inner);
    s->c->b = b;
    if (b->status == PEN_OK)
        b->status = inner->status;
    memcpy(in, s->start, n * sizeof *in);
    in[count++] = s->data;
    if (s->data_mask != VALUE_NONE)
        in[count++] = s->data_mask;
    build_many(b, OP_Scan, in, count, out, n + 1);
    build_graph(b, ATTR_body, s->body);
    build_int(b, ATTR_carried, n);
    build_int(b, ATTR_num_scan_inputs, count - n);
    for (uint32_t i = 0; i < n; i++)
        s->states[i] = out[i];
    return b->status == PEN_OK ? out[n] : VALUE_NONE;
}

/* ---- ConvLSTM2D: the products of an LSTM are convolutions ------------------------------------------------------------------------ */

struct conv_lstm {
    struct tf_window in, again;
    uint32_t kernel, recurrent, bias;
    const char *act, *gate;
    int64_t filters;
};

static bool conv_lstm_read(struct kcall *c, struct conv_lstm *k)
{
    *k = (struct conv_lstm){.kernel = layer_weight_needed(c, "kernel"),
                            .recurrent = layer_weight_needed(c, "recurrent_kernel"),
                            .bias = VALUE_NONE,
                            .act = layer_activation(c, "activation"),
                            .gate = layer_activation(c, "recurrent_activation"),
                            .filters = tfjs_json_int(c->l->config, "filters", 0)};
    if (tfjs_json_bool(c->l->config, "use_bias", true))
        k->bias = layer_weight_needed(c, "bias");
    layer_window(c, 2, &k->in);
    k->again = tf_window_init(2);
    k->again.padding = TF_SAME;
    const struct value *v = build_value(c->b, k->kernel);
    if (!v || v->shape.rank != 4 || v->shape.dim[3] != 4 * k->filters || layer_channels_first(c)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its weights do not suit %lld filters, or channels come first",
                   (long long)k->filters);
        return false;
    }
    return true;
}

/* x [batch, h, w, in]: all four gates side by side */
static uint32_t gates_of(struct kcall *c, const struct conv_lstm *k, uint32_t x)
{
    return tf_conv(c->b, x, k->kernel, k->bias, &k->in, WEIGHT_HWIO, 1);
}

static uint32_t gate(struct kcall *c, const struct conv_lstm *k, uint32_t all, int64_t which, const char *act)
{
    uint32_t y = build_slice(c->b, all, 3, which * k->filters, (which + 1) * k->filters, 1);
    return layer_activate(c, y, act);
}

/* c' = f c + i a(x), h' = o a(c'); the order of the gates is i, f, c, o */
static void conv_lstm_step(struct kcall *c, const struct conv_lstm *k, const struct layer_scan *s, uint32_t next[2])
{
    struct build *b = c->b;
    const char *act = k->act ? k->act : "tanh", *open = k->gate ? k->gate : "hard_sigmoid";
    uint32_t again = tf_conv(b, s->states[0], k->recurrent, VALUE_NONE, &k->again, WEIGHT_HWIO, 1);
    uint32_t all = build_2(b, OP_Add, gates_of(c, k, s->x), again);
    uint32_t kept_cell = build_2(b, OP_Mul, gate(c, k, all, 1, open), s->states[1]);
    next[1] = build_2(b, OP_Add, kept_cell, build_2(b, OP_Mul, gate(c, k, all, 0, open), gate(c, k, all, 2, act)));
    next[0] = build_2(b, OP_Mul, gate(c, k, all, 3, open), layer_activate(c, next[1], act));
}

/* Zeros as large as what a convolution of the first step gives. */
static uint32_t conv_zero(struct kcall *c, const struct conv_lstm *k, uint32_t steps)
{
    uint32_t first[] = {steps, build_i64_scalar(c->b, 0)},
             all = gates_of(c, k, build_axis_op(c->b, OP_Gather, first, 2, 0));
    uint32_t shape = build_1(c->b, OP_Shape, build_slice(c->b, all, 3, 0, k->filters, 1));
    return build_2(c->b, OP_Expand, build_f32_scalar(c->b, 0.0f), shape);
}

static void conv_lstm(struct kcall *c)
{
    static const int64_t time_first[] = {1, 0, 2, 3, 4};
    struct conv_lstm k;
    struct layer_scan scan;
    uint32_t next[2];
    bool backwards = tfjs_json_bool(c->l->config, "go_backwards", false);
    if (c->in_count > 1 || c->in[0].rank != 5 || !conv_lstm_read(c, &k)) {
        build_miss(c->b, "ConvLSTM2D with given states");
        return;
    }
    uint32_t x = build_transpose(c->b, c->in[0].value, time_first, 5);
    x = backwards ? tf_reverse(c->b, x, 0) : x;
    uint32_t zero = conv_zero(c, &k, x), start[] = {zero, zero};
    if (!layer_scan_begin(&scan, c, x, VALUE_NONE, start, 2) || !conv_lstm_read(c, &k))
        return;
    conv_lstm_step(c, &k, &scan, next);
    uint32_t y = layer_scan_end(&scan, next);
    if (tfjs_json_bool(c->l->config, "return_sequences", false))
        layer_give(c, build_transpose(c->b, y, time_first, 5), 5);
    else
        layer_give(c, scan.states[0], 4);
    for (uint32_t i = 0; tfjs_json_bool(c->l->config, "return_state", false) && i < 2; i++)
        layer_give(c, scan.states[i], 4);
}

const struct layer_row layers_scan[] = {
    {"ConvLSTM2D", conv_lstm, 0},
    {NULL, NULL, 0},
};
