/* Dense, activations, shapes, merges, normalisation, embedding. */
#include <math.h>
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

void layer_give(struct kcall *c, uint32_t value, int32_t rank)
{
    if (c->out_count < LAYER_TENSORS_MAX)
        c->out[c->out_count++] = (struct ktensor){value, rank, c->in_count > 0 && c->in[0].masked};
}

bool layer_channels_first(const struct kcall *c)
{
    const char *format = tfjs_json_text(c->l->config, "data_format");
    return format && (strcmp(format, "channels_first") == 0 || strcmp(format, "channelsFirst") == 0);
}

/* ---- activations --------------------------------------------------------------------------------------------------------- */

/* The name in a field; an object is {class_name, config}. */
const char *layer_activation(const struct kcall *c, const char *field)
{
    const cJSON *item = tfjs_json_get(c->l->config, field);
    return cJSON_IsObject(item) ? tfjs_json_text(item, "class_name") : cJSON_GetStringValue(item);
}

/* Names without underscores and case: hard_sigmoid and hardSigmoid are one. */
static bool named(const char *name, const char *plain)
{
    for (; *name; name++) {
        if (*name == '_')
            continue;
        char ch = *name >= 'A' && *name <= 'Z' ? (char)(*name + 32) : *name;
        if (ch != *plain++)
            return false;
    }
    return *plain == '\0';
}

uint32_t layer_activate(struct kcall *c, uint32_t x, const char *name)
{
    static const struct {
        const char *name;
        enum op op;
    } plain[] = {{"elu", OP_Elu},           {"relu", OP_Relu},         {"selu", OP_Selu}, {"sigmoid", OP_Sigmoid},
                 {"softplus", OP_Softplus}, {"softsign", OP_Softsign}, {"tanh", OP_Tanh}, {"swish", OP_Swish},
                 {"silu", OP_Swish},        {"mish", OP_Mish},         {"gelu", OP_Gelu}, {"exponential", OP_Exp}};
    struct build *b = c->b;
    uint32_t y;
    if (!name || named(name, "linear"))
        return x;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (named(name, plain[i].name))
            return build_1(b, plain[i].op, x);
    }
    if (named(name, "relu6"))
        return tf_activate(b, x, TF_ACT_RELU6, 0.0f);
    if (named(name, "leakyrelu"))
        return tf_activate(b, x, TF_ACT_LEAKY, 0.2f);
    if (named(name, "softmax") || named(name, "logsoftmax"))
        return build_axis_op(b, named(name, "softmax") ? OP_Softmax : OP_LogSoftmax, &x, 1, -1);
    if (named(name, "hardsigmoid")) {
        y = build_1(b, OP_HardSigmoid, x);
        build_float(b, ATTR_alpha, 0.2f);
        build_float(b, ATTR_beta, 0.5f);
        return y;
    }
    if (named(name, "gelunew")) {
        y = build_1(b, OP_Gelu, x);
        build_text(b, ATTR_approximate, "tanh");
        return y;
    }
    build_miss(b, name);
    return x;
}

static void activation(struct kcall *c)
{
    layer_give(c, layer_activate(c, c->in[0].value, layer_activation(c, "activation")), c->in[0].rank);
}

static void same(struct kcall *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        layer_give(c, c->in[i].value, c->in[i].rank);
}

/* max_value, negative_slope and threshold, all optional. */
static void relu(struct kcall *c)
{
    struct build *b = c->b;
    double max = tfjs_json_number(c->l->config, "max_value", NAN),
           slope = tfjs_json_number(c->l->config, "negative_slope", 0.0);
    uint32_t x = c->in[0].value, y;
    if (tfjs_json_number(c->l->config, "threshold", 0.0) != 0.0) {
        build_miss(b, "ReLU with a threshold");
        return;
    }
    y = slope != 0.0 ? tf_activate(b, x, TF_ACT_LEAKY, (float)slope) : build_1(b, OP_Relu, x);
    if (!isnan(max))
        y = build_2(b, OP_Min, y, build_f32_scalar(b, (float)max));
    layer_give(c, y, c->in[0].rank);
}

static void leaky_relu(struct kcall *c)
{
    double alpha = tfjs_json_number(c->l->config, "alpha", tfjs_json_number(c->l->config, "negative_slope", 0.3));
    layer_give(c, tf_activate(c->b, c->in[0].value, TF_ACT_LEAKY, (float)alpha), c->in[0].rank);
}

static void prelu(struct kcall *c)
{
    layer_give(c, build_2(c->b, OP_PRelu, c->in[0].value, layer_weight_needed(c, "alpha")), c->in[0].rank);
}

static void elu(struct kcall *c)
{
    uint32_t y = build_1(c->b, OP_Elu, c->in[0].value);
    build_float(c->b, ATTR_alpha, (float)tfjs_json_number(c->l->config, "alpha", 1.0));
    layer_give(c, y, c->in[0].rank);
}

static void thresholded_relu(struct kcall *c)
{
    uint32_t y = build_1(c->b, OP_ThresholdedRelu, c->in[0].value);
    build_float(c->b, ATTR_alpha, (float)tfjs_json_number(c->l->config, "theta", 1.0));
    layer_give(c, y, c->in[0].rank);
}

static void softmax(struct kcall *c)
{
    layer_give(c, build_axis_op(c->b, OP_Softmax, &c->in[0].value, 1, tfjs_json_int(c->l->config, "axis", -1)),
               c->in[0].rank);
}

/* ---- dense ----------------------------------------------------------------------------------------------------------------- */

static void dense(struct kcall *c)
{
    struct build *b = c->b;
    bool bias = tfjs_json_bool(c->l->config, "use_bias", true);
    uint32_t kernel = layer_weight_needed(c, "kernel"), added = bias ? layer_weight_needed(c, "bias") : VALUE_NONE, y;
    if (c->in[0].rank == 2) {
        y = build_3(b, OP_Gemm, c->in[0].value, kernel, added);
    } else {
        y = build_2(b, OP_MatMul, c->in[0].value, kernel);
        if (bias)
            y = build_2(b, OP_Add, y, added);
    }
    layer_give(c, layer_activate(c, y, layer_activation(c, "activation")), c->in[0].rank);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------ */

static void flatten(struct kcall *c)
{
    uint32_t x = c->in[0].value;
    if (layer_channels_first(c) && c->in[0].rank > 2) {
        int64_t perm[PEN_MAX_RANK] = {0};
        for (int32_t i = 1; i < c->in[0].rank; i++)
            perm[i] = i + 1 < c->in[0].rank ? i + 1 : 1;
        x = build_transpose(c->b, x, perm, (uint32_t)c->in[0].rank);
    }
    layer_give(c, build_2(c->b, OP_Reshape, x, build_i64(c->b, (int64_t[]){0, -1}, 2)), 2);
}

/* [0, target...]: 0 keeps the batch. */
static void reshape(struct kcall *c)
{
    int64_t dims[PEN_MAX_RANK] = {0};
    int count = tfjs_json_ints(tfjs_json_get(c->l->config, "target_shape"), dims + 1, PEN_MAX_RANK - 1, 1);
    for (int i = 1; i <= count; i++) {
        if (dims[i] == 0 || dims[i] < -1)
            count = -1;
    }
    if (count < 0) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its target shape makes no sense");
        return;
    }
    layer_give(c, build_2(c->b, OP_Reshape, c->in[0].value, build_i64(c->b, dims, (uint32_t)count + 1)), count + 1);
}

static void permute(struct kcall *c)
{
    int64_t perm[PEN_MAX_RANK] = {0};
    int count = tfjs_json_ints(tfjs_json_get(c->l->config, "dims"), perm + 1, PEN_MAX_RANK - 1, 1);
    if (count < 0)
        build_stop(c->b, PEN_ERR_CORRUPT, "its dims make no sense");
    else
        layer_give(c, build_transpose(c->b, c->in[0].value, perm, (uint32_t)count + 1), count + 1);
}

static void repeat_vector(struct kcall *c)
{
    int64_t times[] = {1, tfjs_json_int(c->l->config, "n", 1), 1};
    uint32_t x = build_unsqueeze(c->b, c->in[0].value, 1);
    layer_give(c, build_2(c->b, OP_Tile, x, build_i64(c->b, times, 3)), 3);
}

static void embedding(struct kcall *c)
{
    uint32_t in[] = {layer_weight_needed(c, "embeddings"), build_cast(c->b, c->in[0].value, PEN_DTYPE_I32)};
    if (tfjs_json_bool(c->l->config, "mask_zero", false))
        build_miss(c->b, "Embedding with mask_zero");
    layer_give(c, build_axis_op(c->b, OP_Gather, in, 2, 0), c->in[0].rank + 1);
}

/* Steps that hold nothing but mask_value become zeros. That recurrent layers pass over them is not modelled, and refused there. */
static void masking(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t x = c->in[0].value, skip = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "mask_value", 0.0));
    uint32_t other = build_1(b, OP_Not, build_2(b, OP_Equal, x, skip));
    uint32_t any =
        build_reduce(b, OP_ReduceMax, build_cast(b, other, PEN_DTYPE_F32), build_i64(b, (int64_t[]){-1}, 1), true);
    layer_give(c, build_2(b, OP_Mul, x, any), c->in[0].rank);
    c->out[0].masked = true;
}

/* ---- merges -------------------------------------------------------------------------------------------------------------------- */

static int32_t highest_rank(const struct kcall *c)
{
    int32_t rank = 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        rank = c->in[i].rank > rank ? c->in[i].rank : rank;
    return rank;
}

static void merge(struct kcall *c)
{
    uint32_t y = c->in[0].value;
    for (uint32_t i = 1; i < c->in_count; i++)
        y = build_2(c->b, (enum op)c->op, y, c->in[i].value);
    layer_give(c, y, highest_rank(c));
}

static void average(struct kcall *c)
{
    uint32_t y = c->in[0].value;
    for (uint32_t i = 1; i < c->in_count; i++)
        y = build_2(c->b, OP_Add, y, c->in[i].value);
    layer_give(c, build_2(c->b, OP_Mul, y, build_f32_scalar(c->b, 1.0f / (float)c->in_count)), highest_rank(c));
}

static void concatenate(struct kcall *c)
{
    uint32_t parts[LAYER_TENSORS_MAX];
    for (uint32_t i = 0; i < c->in_count; i++)
        parts[i] = c->in[i].value;
    layer_give(c, build_axis_op(c->b, OP_Concat, parts, c->in_count, tfjs_json_int(c->l->config, "axis", -1)),
               c->in[0].rank);
}

/* Batch vectors of 2 dimensions, or batch matrices of 3: contracted along the axes. */
static void dot(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axes[2];
    int count = tfjs_json_ints(tfjs_json_get(c->l->config, "axes"), axes, 2, 2);
    if (c->in_count != 2 || count != 2 || c->in[0].rank != c->in[1].rank || c->in[0].rank > 3) {
        build_miss(b, "Dot of such tensors");
        return;
    }
    uint32_t x = c->in[0].value, y = c->in[1].value;
    int32_t rank = c->in[0].rank;
    if (tfjs_json_bool(c->l->config, "normalize", false)) {
        x = tf_l2_normalise(b, x, axes[0], 1e-7f);
        y = tf_l2_normalise(b, y, axes[1], 1e-7f);
    }
    for (int i = 0; i < 2; i++)
        axes[i] += axes[i] < 0 ? rank : 0;
    if (rank == 2) {
        uint32_t product = build_2(b, OP_Mul, x, y);
        layer_give(c, build_reduce(b, OP_ReduceSum, product, build_i64(b, (int64_t[]){1}, 1), true), 2);
        return;
    }
    static const int64_t swap[] = {0, 2, 1};
    if (axes[0] == 1)
        x = build_transpose(b, x, swap, 3);
    if (axes[1] == 2)
        y = build_transpose(b, y, swap, 3);
    layer_give(c, build_2(b, OP_MatMul, x, y), 3);
}

/* ---- normalisation ---------------------------------------------------------------------------------------------------------------- */

static uint32_t filled(struct kcall *c, int64_t count, float item)
{
    struct shape shape = shape_of(1, &count);
    float *items = graph_alloc(c->b->g, (size_t)count * sizeof *items + 64);
    if (!items) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
        return VALUE_NONE;
    }
    for (int64_t i = 0; i < count; i++)
        items[i] = item;
    return build_const(c->b, PEN_DTYPE_F32, &shape, items, (size_t)count * sizeof *items, false);
}

static int64_t axis_of(const struct kcall *c, int64_t def)
{
    const cJSON *axis = tfjs_json_get(c->l->config, "axis");
    int64_t items[PEN_MAX_RANK];
    int count = tfjs_json_ints(axis, items, PEN_MAX_RANK, 1);
    int64_t at = count == 1 ? items[0] : count > 1 ? INT64_MIN : def;
    return at < 0 && at > INT64_MIN ? at + c->in[0].rank : at;
}

static void batch_normalization(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axis = axis_of(c, -1);
    uint32_t mean = layer_weight_needed(c, "moving_mean"), gamma = layer_weight(c, "gamma"),
             beta = layer_weight(c, "beta");
    const struct value *v = build_value(b, mean);
    bool last = axis == c->in[0].rank - 1;
    if (!v)
        return;
    if (!last && axis != 1) {
        build_miss(b, "BatchNormalization along such an axis");
        return;
    }
    int64_t count = shape_elements(&v->shape);
    uint32_t in[] = {c->in[0].value, gamma != VALUE_NONE ? gamma : filled(c, count, 1.0f),
                     beta != VALUE_NONE ? beta : filled(c, count, 0.0f), mean,
                     layer_weight_needed(c, "moving_variance")};
    uint32_t y = build_op(b, OP_BatchNormalization, in, 5);
    if (last)
        build_int(b, ATTR_layout, LAYOUT_NHWC);
    build_float(b, ATTR_epsilon, (float)tfjs_json_number(c->l->config, "epsilon", 0.001));
    layer_give(c, y, c->in[0].rank);
}

static void layer_normalization(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t gamma = layer_weight(c, "gamma"), beta = layer_weight(c, "beta");
    if (axis_of(c, -1) != c->in[0].rank - 1) {
        build_miss(b, "LayerNormalization along other axes than the last");
        return;
    }
    const struct value *v = build_value(b, gamma != VALUE_NONE ? gamma : beta);
    if (!v) {
        build_miss(b, "LayerNormalization without weights");
        return;
    }
    if (gamma == VALUE_NONE)
        gamma = filled(c, shape_elements(&v->shape), 1.0f);
    uint32_t y = build_3(b, OP_LayerNormalization, c->in[0].value, gamma, beta);
    build_int(b, ATTR_axis, -1);
    build_float(b, ATTR_epsilon, (float)tfjs_json_number(c->l->config, "epsilon", 0.001));
    layer_give(c, y, c->in[0].rank);
}

static void rescaling(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t scale = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "scale", 1.0));
    uint32_t offset = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "offset", 0.0));
    layer_give(c, build_2(b, OP_Add, build_2(b, OP_Mul, c->in[0].value, scale), offset), c->in[0].rank);
}

const struct layer_row layers_core[] = {
    {"InputLayer", same, 0},
    {"Dense", dense, 0},
    {"Activation", activation, 0},
    {"Dropout", same, 0},
    {"SpatialDropout1D", same, 0},
    {"SpatialDropout2D", same, 0},
    {"SpatialDropout3D", same, 0},
    {"GaussianNoise", same, 0},
    {"GaussianDropout", same, 0},
    {"AlphaDropout", same, 0},
    {"ActivityRegularization", same, 0},
    {"ReLU", relu, 0},
    {"LeakyReLU", leaky_relu, 0},
    {"PReLU", prelu, 0},
    {"ELU", elu, 0},
    {"ThresholdedReLU", thresholded_relu, 0},
    {"Softmax", softmax, 0},
    {"Flatten", flatten, 0},
    {"Reshape", reshape, 0},
    {"Permute", permute, 0},
    {"RepeatVector", repeat_vector, 0},
    {"Embedding", embedding, 0},
    {"Masking", masking, 0},
    {"Add", merge, OP_Add},
    {"Subtract", merge, OP_Sub},
    {"Multiply", merge, OP_Mul},
    {"Maximum", merge, OP_Max},
    {"Minimum", merge, OP_Min},
    {"Average", average, 0},
    {"Concatenate", concatenate, 0},
    {"Dot", dot, 0},
    {"BatchNormalization", batch_normalization, 0},
    {"LayerNormalization", layer_normalization, 0},
    {"Rescaling", rescaling, 0},
    {NULL, NULL, 0},
};
