/* Recurrent operators. Their gates come as i, f, c, o; ours are ONNX's i, o, f, c. State starts at zero in every run. */
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static uint32_t stacked(struct call *c, uint32_t first, const uint32_t *order, uint32_t count)
{
    uint32_t parts[4];
    for (uint32_t i = 0; i < count; i++)
        parts[i] = lite_real(c, first + order[i]);
    return build_unsqueeze(c->b, build_axis_op(c->b, OP_Concat, parts, count, 0), 0);
}

static const int64_t swapped[] = {1, 0, 2};

/* The data (input `index`), time first as the fast kernels want it. */
static uint32_t steps_in(struct call *c, uint32_t index, bool time_major)
{
    uint32_t x = lite_real(c, index);
    return time_major ? x : build_transpose(c->b, x, swapped, 3);
}

/* [time, 1, batch, units] without the axis of directions, in the order of the file. */
static uint32_t steps_out(struct call *c, uint32_t y, bool time_major)
{
    y = build_squeeze(c->b, y, 1);
    return time_major ? y : build_transpose(c->b, y, swapped, 3);
}

/* What ONNX's operator does in one. */
static bool plain_lstm(struct call *c, const struct lstm_in *at)
{
    for (uint32_t i = 0; i < 4; i++) {
        if (!lite_tensor(c, at->weights + i) || !lite_tensor(c, at->recurrent + i) || !lite_tensor(c, at->bias + i) ||
            (at->norm && lite_tensor(c, at->norm + i)))
            return false;
    }
    return !at->aux && !lite_tensor(c, at->projection) && lite_activation(c, 0) == TF_ACT_TANH &&
           !lite_hybrid(c, at->data, at->weights);
}

/* Biases of the input side; those of the recurrent side are zeros. */
static uint32_t biases(struct call *c, uint32_t stacked_bias, int64_t units)
{
    struct shape shape = shape_of(2, (int64_t[]){1, units});
    size_t bytes = (size_t)units * sizeof(float);
    void *zeros = graph_alloc(c->b->g, bytes + 64);
    if (!zeros) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for biases");
        return VALUE_NONE;
    }
    uint32_t parts[] = {stacked_bias, build_const(c->b, PEN_DTYPE_F32, &shape, zeros, bytes, false)};
    return build_axis_op(c->b, OP_Concat, parts, 2, 1);
}

/* A state that was given (a variable reads as zeros and needs no input); with the axis of directions. */
static uint32_t initial(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    if (!t || t->variable)
        return VALUE_NONE;
    return build_unsqueeze(c->b, lite_real(c, index), 0);
}

static void lstm_attrs(struct call *c, int64_t hidden, bool reverse, float clip)
{
    build_int(c->b, ATTR_hidden_size, hidden);
    build_text(c->b, ATTR_direction, reverse ? "reverse" : "forward");
    if (clip > 0.0f)
        build_float(c->b, ATTR_cell_clip, clip);
}

static uint32_t lstm(struct call *c, const struct lstm_in *at, bool reverse, bool time_major)
{
    static const uint32_t gates[] = {0, 3, 1, 2}, holes[] = {0, 2, 1};
    struct build *b = c->b;
    const struct tensor *bias = lite_tensor(c, at->bias), *weights = lite_tensor(c, at->recurrent);
    if (!plain_lstm(c, at))
        return lite_lstm_steps(c, at, reverse, time_major);
    if (bias->shape.rank != 1 || weights->shape.rank != 2) {
        build_stop(b, PEN_ERR_CORRUPT, "its weights have the wrong shape");
        return VALUE_NONE;
    }
    int64_t hidden = bias->shape.dim[0];
    bool peeps = lite_tensor(c, at->peephole) && lite_tensor(c, at->peephole + 1) && lite_tensor(c, at->peephole + 2);
    uint32_t in[8] = {steps_in(c, at->data, time_major),
                      stacked(c, at->weights, gates, 4),
                      stacked(c, at->recurrent, gates, 4),
                      biases(c, stacked(c, at->bias, gates, 4), 4 * hidden),
                      VALUE_NONE,
                      initial(c, at->state),
                      initial(c, at->cell),
                      peeps ? stacked(c, at->peephole, holes, 3) : VALUE_NONE};
    uint32_t y = build_op(b, OP_LSTM, in, 8);
    lstm_attrs(c, hidden, reverse, fb_float(&c->options, 1, 0.0f));
    return steps_out(c, y, time_major);
}

void lower_sequence_lstm(struct call *c)
{
    static const struct lstm_in at = {.weights = 1,
                                      .recurrent = 5,
                                      .peephole = 9,
                                      .bias = 12,
                                      .projection = 16,
                                      .state = 18,
                                      .cell = 19,
                                      .norm = 20,
                                      .asymmetric = 4};
    bool time_major = fb_bool(&c->options, 3, false);
    if (lite_quantised(c, 0))
        lite_give(c, 0, lite_lstm_integer(c, &at, time_major));
    else
        lite_give_real(c, 0, lstm(c, &at, false, time_major));
}

static void give_both(struct call *c, uint32_t forward, uint32_t backward, bool merge)
{
    uint32_t both[] = {forward, backward};
    if (forward == VALUE_NONE || backward == VALUE_NONE)
        return;
    if (merge) {
        lite_give_real(c, 0, build_axis_op(c->b, OP_Concat, both, 2, -1));
        return;
    }
    lite_give_real(c, 0, forward);
    lite_give(c, 1, backward);
}

#define AUXILIARY 39 /* input of the bidirectional operator */

/* More data: with weights of its own for both directions, or the data of the second direction. */
void lower_bidirectional_lstm(struct call *c)
{
    struct lstm_in first = {.weights = 1,
                            .recurrent = 5,
                            .peephole = 9,
                            .bias = 12,
                            .projection = 16,
                            .state = 35,
                            .cell = 36,
                            .asymmetric = 5};
    struct lstm_in second = {.weights = 18,
                             .recurrent = 22,
                             .peephole = 26,
                             .bias = 29,
                             .projection = 33,
                             .state = 37,
                             .cell = 38,
                             .asymmetric = 5};
    bool time_major = fb_bool(&c->options, 4, true);
    if (lite_quantised(c, 0)) {
        build_miss(c->b, "BIDIRECTIONAL_SEQUENCE_LSTM of integers");
        return;
    }
    if (lite_tensor(c, AUXILIARY) && lite_tensor(c, AUXILIARY + 2)) {
        first.aux_data = second.aux_data = AUXILIARY;
        first.aux = AUXILIARY + 1;
        second.aux = AUXILIARY + 5;
    } else if (lite_tensor(c, AUXILIARY)) {
        second.data = AUXILIARY;
    }
    uint32_t forward = lstm(c, &first, false, time_major), backward = lstm(c, &second, true, time_major);
    give_both(c, forward, backward, fb_bool(&c->options, 3, false));
}

/* weights, recurrent weights, bias, state from input `at` on; `act`: field of the activation */
static uint32_t rnn(struct call *c, uint32_t at, bool reverse, bool time_major, unsigned act)
{
    struct build *b = c->b;
    const struct tensor *bias = lite_tensor(c, at + 2);
    struct attr names = {.key = ATTR_activations, .type = ATTR_TEXTS, .count = 1};
    enum tf_activation kind = lite_activation(c, act);
    static const struct string_view tanh_name = {"Tanh", 4}, relu_name = {"Relu", 4};
    if (!bias || bias->shape.rank != 1 || (kind != TF_ACT_TANH && kind != TF_ACT_RELU)) {
        build_miss(b, "RNN without a bias or with another activation than tanh and relu");
        return VALUE_NONE;
    }
    int64_t hidden = bias->shape.dim[0];
    uint32_t in[6] = {steps_in(c, 0, time_major),
                      build_unsqueeze(b, lite_real(c, at), 0),
                      build_unsqueeze(b, lite_real(c, at + 1), 0),
                      biases(c, build_unsqueeze(b, lite_real(c, at + 2), 0), hidden),
                      VALUE_NONE,
                      initial(c, at + 3)};
    uint32_t y = build_op(b, OP_RNN, in, 6);
    lstm_attrs(c, hidden, reverse, 0.0f);
    names.texts = kind == TF_ACT_TANH ? &tanh_name : &relu_name;
    if (b->status == PEN_OK && graph_attr_set(b->g, b->node, &names) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for an attribute");
    return steps_out(c, y, time_major);
}

void lower_sequence_rnn(struct call *c)
{
    lite_give_real(c, 0, rnn(c, 1, false, fb_bool(&c->options, 0, false), 1));
}

void lower_bidirectional_rnn(struct call *c)
{
    bool time_major = fb_bool(&c->options, 0, false);
    if (lite_tensor(c, 9)) {
        build_miss(c->b, "BIDIRECTIONAL_SEQUENCE_RNN with an auxiliary input");
        return;
    }
    uint32_t forward = rnn(c, 1, false, time_major, 1), backward = rnn(c, 5, true, time_major, 1);
    give_both(c, forward, backward, fb_bool(&c->options, 2, false));
}

/* One step: act(x w' + h r' + b) */
void lower_rnn(struct call *c)
{
    struct build *b = c->b;
    uint32_t y = build_3(b, OP_Gemm, lite_real(c, 0), lite_real(c, 1), lite_real(c, 3));
    build_int(b, ATTR_transB, 1);
    y = build_3(b, OP_Gemm, lite_real(c, 4), lite_real(c, 2), y);
    build_int(b, ATTR_transB, 1);
    lite_give_real(c, 0, tf_fuse(b, y, lite_activation(c, 0), 0.0f));
}

/* ---- LSTM: one step ------------------------------------------------------------------------------------------------------------------ */

/* x [batch, in] as a sequence of one step. */
static void one_step(struct call *c)
{
    static const struct lstm_in at = {.weights = 1,
                                      .recurrent = 5,
                                      .peephole = 9,
                                      .bias = 12,
                                      .projection = 16,
                                      .state = 18,
                                      .cell = 19,
                                      .norm = 20,
                                      .asymmetric = 4};
    if (lite_quantised(c, 0))
        lite_give(c, 0, lite_lstm_integer(c, &at, true));
    else
        lite_give_real(c, 0, build_squeeze(c->b, lite_lstm_steps(c, &at, false, true), 0));
}

void lower_lstm(struct call *c)
{
    if (fb_int(&c->options, 3, 1, 0) == 1)
        lite_lstm_basic(c);
    else
        one_step(c);
}
