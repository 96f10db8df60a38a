/* Layers that go through their steps one after the other: what ONNX's recurrent operators do not do in one. */
#include "import/build/scan.h"
#include "import/build/tensorflow.h"
#include "import/build/window.h"
#include "import/tfjs/layers.h"

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
static void conv_lstm_step(struct kcall *c, const struct conv_lstm *k, const struct tf_scan *s, uint32_t next[2])
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
    uint32_t shape = build_1(c->b, OP_Shape, build_slice(c->b, all, 3, 0, k->filters, 1)),
             zero = build_f32_scalar(c->b, 0.0f);
    int64_t one[] = {1, build_dim(c->b, all, 1), build_dim(c->b, all, 2), k->filters};
    if (one[1] > 0 && one[2] > 0 && one[1] < 65536 && one[2] < 65536 && one[1] * one[2] * one[3] < 65536)
        zero = build_2(c->b, OP_Expand, zero, build_i64(c->b, one, 4)); /* tells what is known of the state's shape */
    return build_2(c->b, OP_Expand, zero, shape);
}

static void conv_lstm(struct kcall *c)
{
    static const int64_t time_first[] = {1, 0, 2, 3, 4};
    struct conv_lstm k;
    struct tf_scan scan;
    uint32_t next[2] = {VALUE_NONE, VALUE_NONE};
    bool backwards = tfjs_json_bool(c->l->config, "go_backwards", false);
    if (c->in_count > 1 || c->in[0].rank != 5 || !conv_lstm_read(c, &k)) {
        build_miss(c->b, "ConvLSTM2D with given states");
        return;
    }
    uint32_t x = build_transpose(c->b, c->in[0].value, time_first, 5);
    x = backwards ? tf_reverse(c->b, x, 0) : x;
    uint32_t zero = conv_zero(c, &k, x), start[] = {zero, zero};
    struct build *b = c->b;
    if (!tf_scan_begin(&scan, b, x, VALUE_NONE, start, 2))
        return;
    c->b = &scan.inner;
    if (conv_lstm_read(c, &k))
        conv_lstm_step(c, &k, &scan, next);
    c->b = b;
    uint32_t y = tf_scan_end(&scan, next);
    if (tfjs_json_bool(c->l->config, "return_sequences", false))
        layer_give(c, build_transpose(c->b, y, time_first, 5), 5);
    else
        layer_give(c, scan.states[0], 4);
    for (uint32_t i = 0; tfjs_json_bool(c->l->config, "return_state", false) && i < 2; i++)
        layer_give(c, scan.states[i], 4);
}

const struct layer_row layers_scan[] = {
    LAYER_ROW(ConvLSTM2D, conv_lstm, 0),
    {NULL, NULL, 0},
};
