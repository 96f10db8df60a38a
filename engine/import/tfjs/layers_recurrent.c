/*
 * Recurrent layers and what wraps layers. Keras keeps [in, gates * units] in the order i, f, c, o (LSTM) and z, r, h (GRU); ours are [gates * units, in] in
 * ONNX's order i, o, f, c and z, r, h. Data is batch first.
 */
#include <stdio.h>
#include <string.h>

#include "import/build/scan.h"
#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

struct cell {
    enum op op;
    uint32_t gates;
    uint32_t order[4]; /* Keras gate of each of ours */
    int64_t units;
    bool reset_after; /* GRU */
};

/* A transposed copy with the gates in our order: [rows, gates * units] -> [1, gates * units, rows]. */
static uint32_t turned(struct kcall *c, const struct cell *k, uint32_t weight)
{
    const struct value *v = build_value(c->b, weight);
    uint32_t count;
    const float *from = layer_floats(c, weight, &count);
    int64_t wide = k->gates * k->units;
    if (!from || v->shape.rank != 2 || v->shape.dim[1] != wide) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its weights do not suit %lld units", (long long)k->units);
        return VALUE_NONE;
    }
    int64_t rows = v->shape.dim[0];
    struct shape shape = shape_of(3, (int64_t[]){1, wide, rows});
    float *to = graph_alloc_data(c->b->g, count * sizeof *to + 64);
    for (int64_t j = 0; to && j < wide; j++) {
        int64_t source = k->order[j / k->units] * k->units + j % k->units;
        for (int64_t i = 0; i < rows; i++)
            to[j * rows + i] = from[i * wide + source];
    }
    if (!to) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for weights");
        return VALUE_NONE;
    }
    return build_const(c->b, PEN_DTYPE_F32, &shape, to, count * sizeof *to, false);
}

/* [gates * units], or [2, gates * units] of a GRU that resets after its product -> [1, 2 * gates * units]. */
static uint32_t bias_turned(struct kcall *c, const struct cell *k, uint32_t bias)
{
    uint32_t count = 0;
    int64_t wide = k->gates * k->units;
    const float *from = layer_floats(c, bias, &count);
    struct shape shape = shape_of(2, (int64_t[]){1, 2 * wide});
    float *to = graph_alloc(c->b->g, (size_t)(2 * wide) * sizeof *to + 64);
    if (!from || !to || (count != wide && count != 2 * wide)) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its biases do not suit %lld units", (long long)k->units);
        return VALUE_NONE;
    }
    for (int64_t j = 0; j < (int64_t)count; j++) {
        int64_t side = j / wide, at = j % wide;
        to[j] = from[side * wide + k->order[at / k->units] * k->units + at % k->units];
    }
    return build_const(c->b, PEN_DTYPE_F32, &shape, to, (size_t)(2 * wide) * sizeof *to, false);
}

/* Keras' name of an activation as ONNX's recurrent operators call it; NULL when they do not know it. */
static const char *gate_name(const char *name)
{
    static const struct {
        const char *keras, *onnx;
    } list[] = {{"tanh", "Tanh"},
                {"sigmoid", "Sigmoid"},
                {"hardsigmoid", "HardSigmoid"},
                {"relu", "Relu"},
                {"softsign", "Softsign"},
                {"softplus", "Softplus"},
                {"elu", "Elu"},
                {"linear", "Affine"},
                {"swish", "Swish"},
                {"silu", "Swish"},
                {"mish", "Mish"},
                {"gelu", "Gelu"},
                {"selu", "Selu"},
                {"relu6", "Relu6"},
                {"exponential", "Exponential"},
                {"leakyrelu", "LeakyRelu"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (layer_named(name, list[i].keras))
            return list[i].onnx;
    }
    return NULL;
}

static void activations_set(struct kcall *c, const struct cell *k)
{
    const char *act = layer_activation(c, "activation"), *gate = layer_activation(c, "recurrent_activation");
    const char *inner = gate_name(act ? act : "tanh"), *outer = gate_name(gate ? gate : "hard_sigmoid");
    if (!inner || !outer) {
        build_miss(c->b, "a recurrent layer with such an activation");
        return;
    }
    struct string_view *names = graph_alloc(c->b->g, 3 * sizeof *names);
    uint32_t count = k->op == OP_LSTM ? 3 : k->op == OP_GRU ? 2 : 1;
    for (uint32_t i = 0; names && i < count; i++) {
        const char *name = i == 0 && count > 1 ? outer : inner;
        names[i] = (struct string_view){name, strlen(name)};
    }
    struct attr attr = {.key = ATTR_activations, .type = ATTR_TEXTS, .count = count, .texts = names};
    if (!names || (c->b->status == PEN_OK && graph_attr_set(c->b->g, c->b->node, &attr) != PEN_OK))
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for an attribute");
}

static bool cell_of(struct kcall *c, const char *kind, struct cell *k)
{
    *k = (struct cell){.units = tfjs_json_int(c->l->config, "units", 0)};
    if (strncmp(kind, "LSTM", 4) == 0)
        *k = (struct cell){OP_LSTM, 4, {0, 3, 1, 2}, k->units, false};
    else if (strncmp(kind, "GRU", 3) == 0)
        *k = (struct cell){OP_GRU, 3, {0, 1, 2}, k->units, tfjs_json_bool(c->l->config, "reset_after", false)};
    else if (strncmp(kind, "SimpleRNN", 9) == 0)
        *k = (struct cell){OP_RNN, 1, {0}, k->units, false};
    if (k->gates == 0 || k->units < 1 || k->units > 1 << 20)
        return false;
    return true;
}

static const int64_t time_first[] = {1, 0, 2}; /* and back */

static uint32_t state_count(const struct cell *k)
{
    return k->op == OP_LSTM ? 2 : 1;
}

/* The operator on x [steps, batch, in]: sequence [steps, 1, batch, units], last state(s) [1, batch, units]. */
static void cell_emit(struct kcall *c, const struct cell *k, uint32_t x, const uint32_t *states, bool reverse,
                      uint32_t out[3])
{
    struct build *b = c->b;
    bool bias = tfjs_json_bool(c->l->config, "use_bias", true);
    uint32_t in[7] = {x,
                      turned(c, k, layer_weight_needed(c, "kernel")),
                      turned(c, k, layer_weight_needed(c, "recurrent_kernel")),
                      bias ? bias_turned(c, k, layer_weight_needed(c, "bias")) : VALUE_NONE,
                      VALUE_NONE,
                      states[0],
                      states[1]};
    build_many(b, k->op, in, k->op == OP_LSTM ? 7 : 6, out, 1 + state_count(k));
    build_int(b, ATTR_hidden_size, k->units);
    build_text(b, ATTR_direction, reverse ? "reverse" : "forward");
    if (k->op == OP_GRU)
        build_int(b, ATTR_linear_before_reset, k->reset_after);
    activations_set(c, k);
}

/* [1, batch, units] of zeros for x [steps, batch, in] */
static uint32_t zero_state(struct kcall *c, uint32_t x, int64_t units)
{
    struct build *b = c->b;
    uint32_t one = build_i64(b, (int64_t[]){1}, 1), batch = build_slice(b, build_1(b, OP_Shape, x), 0, 1, 2, 1);
    uint32_t dims[] = {one, batch, build_i64(b, &units, 1)};
    return build_2(b, OP_Expand, build_f32_scalar(b, 0.0f), build_axis_op(b, OP_Concat, dims, 3, 0));
}

/* Step by step, since steps that are passed over leave the state as it is. */
static void cell_masked(struct kcall *c, const struct cell *k, uint32_t x, uint32_t mask, uint32_t *states,
                        bool reverse, uint32_t out[3])
{
    struct tf_scan scan;
    struct build *b = c->b;
    uint32_t step[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE}, n = state_count(k);
    mask = build_transpose(c->b, mask, (int64_t[]){1, 0}, 2);
    if (reverse) {
        x = tf_reverse(c->b, x, 0);
        mask = tf_reverse(c->b, mask, 0);
    }
    for (uint32_t i = 0; i < n; i++)
        states[i] = states[i] == VALUE_NONE ? zero_state(c, x, k->units) : states[i];
    if (!tf_scan_begin(&scan, b, x, mask, states, n))
        return;
    c->b = &scan.inner;
    cell_emit(c, k, build_unsqueeze(c->b, scan.x, 0), (uint32_t[]){scan.states[0], n > 1 ? scan.states[1] : VALUE_NONE},
              false, step);
    c->b = b;
    out[0] = tf_scan_end(&scan, step + 1);
    if (reverse)
        out[0] = tf_reverse(c->b, out[0], 0);
    out[1] = scan.states[0];
    out[2] = n > 1 ? scan.states[1] : VALUE_NONE;
}

static void cell_run(struct kcall *c, const struct cell *k, bool reverse, uint32_t out[3])
{
    uint32_t x = build_transpose(c->b, c->in[0].value, time_first, 3), states[2] = {VALUE_NONE, VALUE_NONE};
    for (uint32_t i = 0; i < state_count(k) && c->in_count > i + 1; i++)
        states[i] = build_unsqueeze(c->b, c->in[i + 1].value, 0);
    if (c->in[0].mask != VALUE_NONE)
        cell_masked(c, k, x, c->in[0].mask, states, reverse, out);
    else
        cell_emit(c, k, x, states, reverse, out);
}

/* [time, 1, batch, units] -> [batch, time, units] */
static uint32_t sequence_of(struct kcall *c, uint32_t y)
{
    return build_transpose(c->b, build_squeeze(c->b, y, 1), time_first, 3);
}

static void recurrent_as(struct kcall *c, const char *kind)
{
    struct build *b = c->b;
    struct cell k;
    uint32_t out[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    bool backwards = tfjs_json_bool(c->l->config, "go_backwards", false);
    if (!cell_of(c, kind, &k)) {
        build_miss(b, kind);
        return;
    }
    cell_run(c, &k, backwards, out);
    if (tfjs_json_bool(c->l->config, "return_sequences", false)) {
        uint32_t y = sequence_of(c, out[0]);
        layer_give(c, backwards ? tf_reverse(b, y, 1) : y, 3); /* Keras gives steps in the order it took them */
    } else {
        layer_give(c, build_squeeze(b, out[1], 0), 2);
    }
    for (uint32_t i = 1; tfjs_json_bool(c->l->config, "return_state", false) && i <= (k.op == OP_LSTM ? 2u : 1u); i++)
        layer_give(c, build_squeeze(b, out[i], 0), 2);
    for (uint32_t i = 0; i < c->out_count; i++)
        c->out[i].mask = c->out[i].rank == 3 && i == 0 ? c->in[0].mask : VALUE_NONE;
}

static void recurrent(struct kcall *c)
{
    recurrent_as(c, c->l->kind);
}

/* The cell's configuration with flags of its own. */
static cJSON *cell_config(struct kcall *c, const cJSON *cell, bool last)
{
    static const char *const flags[] = {"return_sequences", "return_state", "go_backwards"};
    cJSON *config = cJSON_Duplicate(tfjs_json_get(cell, "config"), 1);
    for (size_t i = 0; config && i < sizeof flags / sizeof flags[0]; i++) {
        bool on = tfjs_json_bool(c->l->config, flags[i], false);
        cJSON_DeleteItemFromObjectCaseSensitive(config, flags[i]);
        if (!cJSON_AddBoolToObject(config, flags[i], last ? on : i == 0))
            build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a cell");
    }
    if (!config)
        build_stop(c->b, PEN_ERR_CORRUPT, "it has no cell");
    return config;
}

/* One of the cells that a step goes through: the whole sequence goes through it before the next one. */
static void one_cell(struct kcall *c, const cJSON *cell, const char *part, uint32_t alike, bool last)
{
    struct klayer as_cell = *c->l, *outer = c->l, inner = layer_of(c->l, cell);
    cJSON *config = cell_config(c, cell, last);
    as_cell.config = config;
    as_cell.part = part;
    as_cell.wrapper = inner.name;
    if (part)
        layer_place("/cell/cells/", inner.kind, alike, as_cell.part_place, sizeof as_cell.part_place);
    as_cell.kind = "RNN"; /* how its weights are numbered */
    c->l = &as_cell;
    c->out_count = 0;
    if (config)
        recurrent_as(c, inner.kind);
    c->l = outer;
    cJSON_Delete(config);
}

/* Cells of its kind that stand before it in the list. */
static uint32_t cells_before(const cJSON *item)
{
    const char *kind = tfjs_json_text(item, "class_name"), *other;
    uint32_t count = 0;
    for (const cJSON *before = item; kind && before->prev && before->prev->next; before = before->prev) {
        other = tfjs_json_text(before->prev, "class_name");
        count += other && strcmp(other, kind) == 0;
    }
    return count;
}

static void rnn(struct kcall *c)
{
    const cJSON *cell = tfjs_json_get(c->l->config, "cell"), *item;
    const char *kind = tfjs_json_text(cell, "class_name");
    const struct ktensor *in = c->in;
    struct ktensor between;
    char part[32];
    int index = 0;
    if (!kind || strcmp(kind, "StackedRNNCells") != 0) {
        one_cell(c, cell, NULL, 0, true);
        return;
    }
    if (tfjs_json_bool(c->l->config, "return_state", false) || c->in_count > 1 ||
        tfjs_json_bool(c->l->config, "go_backwards", false)) {
        build_miss(c->b, "RNN of stacked cells with states or backwards");
        return;
    }
    cJSON_ArrayForEach(item, tfjs_json_get(tfjs_json_get(cell, "config"), "cells"))
    {
        snprintf(part, sizeof part, "RNNCell_%d", index++);
        one_cell(c, item, part, cells_before(item), item->next == NULL);
        if (c->out_count == 0 || c->b->status != PEN_OK)
            break;
        between = c->out[0];
        c->in = &between;
    }
    c->in = in;
}

/* ---- bidirectional ---------------------------------------------------------------------------------------------------------- */

static uint32_t joined(struct kcall *c, const char *mode, uint32_t x, uint32_t y)
{
    uint32_t both[] = {x, y};
    if (strcmp(mode, "sum") == 0)
        return build_2(c->b, OP_Add, x, y);
    if (strcmp(mode, "mul") == 0)
        return build_2(c->b, OP_Mul, x, y);
    if (strcmp(mode, "ave") == 0)
        return build_2(c->b, OP_Mul, build_2(c->b, OP_Add, x, y), build_f32_scalar(c->b, 0.5f));
    return build_axis_op(c->b, OP_Concat, both, 2, -1);
}

/* The same layer's weights are kept under forward_<name> and backward_<name>. */
static void one_way(struct kcall *c, const cJSON *layer, bool backward, uint32_t *ret, bool *ret_sequences)
{
    struct klayer inner = layer_of(c->l, layer), *outer = c->l;
    struct cell k;
    char name[240];
    uint32_t out[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    snprintf(name, sizeof name, "%s_%.200s", backward ? "backward" : "forward", inner.name);
    inner.name = name;
    snprintf(inner.place, sizeof inner.place, backward ? "backward_layer" : "forward_layer");
    c->l = &inner;
    *ret_sequences = tfjs_json_bool(inner.config, "return_sequences", false);
    if (strncmp(inner.kind, "RNN", 3) == 0 || !cell_of(c, inner.kind, &k) ||
        tfjs_json_bool(inner.config, "return_state", false) || c->in_count > 1) {
        build_miss(c->b, "Bidirectional around such a layer");
        *ret = c->in[0].value;
    } else {
        cell_run(c, &k, backward, out);
        *ret = *ret_sequences ? sequence_of(c, out[0]) : build_squeeze(c->b, out[1], 0);
    }
    c->l = outer;
}

static void bidirectional(struct kcall *c)
{
    const cJSON *layer = tfjs_json_get(c->l->config, "layer"), *mode = tfjs_json_get(c->l->config, "merge_mode");
    bool sequences = false;
    uint32_t forward, backward;
    one_way(c, layer, false, &forward, &sequences);
    one_way(c, layer, true, &backward, &sequences);
    int32_t rank = sequences ? 3 : 2;
    if (cJSON_GetObjectItemCaseSensitive(c->l->config, "merge_mode") && !mode) { /* null: both, apart */
        layer_give(c, forward, rank);
        layer_give(c, backward, rank);
        return;
    }
    layer_give(c, joined(c, cJSON_IsString(mode) ? mode->valuestring : "concat", forward, backward), rank);
}

/* ---- the same layer at every step ------------------------------------------------------------------------------------------------ */

/* Steps join the batch, the layer runs once, and they part again: no size need be known. */
static void time_distributed(struct kcall *c)
{
    struct build *b = c->b;
    struct klayer inner = layer_of(c->l, tfjs_json_get(c->l->config, "layer")), *outer = c->l;
    const struct ktensor *in = c->in;
    uint32_t shape = build_1(b, OP_Shape, in[0].value), all = build_i64(b, (int64_t[]){-1}, 1);
    uint32_t flat[] = {all, build_slice(b, shape, 0, 2, INT64_MAX, 1)};
    struct ktensor x = {build_2(b, OP_Reshape, in[0].value, build_axis_op(b, OP_Concat, flat, 2, 0)), in[0].rank - 1,
                        VALUE_NONE};
    inner.wrapper = outer->name;
    snprintf(inner.place, sizeof inner.place, "layer");
    c->l = &inner;
    c->in = &x;
    c->in_count = 1;
    if (c->in[0].rank < 1)
        build_stop(b, PEN_ERR_CORRUPT, "it needs a batch of sequences");
    layer_call(c);
    c->l = outer;
    c->in = in;
    uint32_t y = c->out[0].value;
    uint32_t parted[] = {build_slice(b, shape, 0, 0, 2, 1),
                         build_slice(b, build_1(b, OP_Shape, y), 0, 1, INT64_MAX, 1)};
    y = build_2(b, OP_Reshape, y, build_axis_op(b, OP_Concat, parted, 2, 0));
    c->out_count = 1;
    c->out[0] = (struct ktensor){y, c->out[0].rank + 1, in[0].mask};
}

const struct layer_row layers_recurrent[] = {
    LAYER_ROW(LSTM, recurrent, 0),
    LAYER_ROW(GRU, recurrent, 0),
    LAYER_ROW(SimpleRNN, recurrent, 0),
    LAYER_ROW(RNN, rnn, 0),
    LAYER_ROW(Bidirectional, bidirectional, 0),
    LAYER_ROW(TimeDistributed, time_distributed, 0),
    {NULL, NULL, 0},
};
