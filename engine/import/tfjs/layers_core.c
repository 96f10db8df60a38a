/* Dense, activations, shapes, merges, normalisation, embedding. */
#include <math.h>
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

void layer_give(struct kcall *c, uint32_t value, int32_t rank)
{
    if (c->out_count < LAYER_TENSORS_MAX)
        c->out[c->out_count++] = (struct ktensor){value, rank, c->in_count > 0 ? c->in[0].mask : VALUE_NONE};
}

bool layer_channels_first(const struct kcall *c)
{
    const char *format = tfjs_json_text(c->l->config, "data_format");
    return format && (strcmp(format, "channels_first") == 0 || strcmp(format, "channelsFirst") == 0);
}

/* The layer's result has other steps than its input. */
static void unmask(struct kcall *c)
{
    if (c->out_count > 0)
        c->out[c->out_count - 1].mask = VALUE_NONE;
}

/* ---- activations --------------------------------------------------------------------------------------------------------- */

/* The name in a field; an object is {class_name, config}. */
const char *layer_activation(const struct kcall *c, const char *field)
{
    const cJSON *item = tfjs_json_get(c->l->config, field);
    return cJSON_IsObject(item) ? tfjs_json_text(item, "class_name") : cJSON_GetStringValue(item);
}

/* Names without underscores and case: hard_sigmoid and hardSigmoid are one. */
bool layer_named(const char *name, const char *plain)
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
    if (!name || layer_named(name, "linear"))
        return x;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (layer_named(name, plain[i].name))
            return build_1(b, plain[i].op, x);
    }
    if (layer_named(name, "relu6"))
        return tf_activate(b, x, TF_ACT_RELU6, 0.0f);
    if (layer_named(name, "leakyrelu"))
        return tf_activate(b, x, TF_ACT_LEAKY, 0.2f);
    if (layer_named(name, "softmax") || layer_named(name, "logsoftmax"))
        return build_axis_op(b, layer_named(name, "softmax") ? OP_Softmax : OP_LogSoftmax, &x, 1, -1);
    if (layer_named(name, "hardsigmoid")) {
        y = build_1(b, OP_HardSigmoid, x);
        build_float(b, ATTR_alpha,
                    c->l->r->placed ? 1.0f / 6.0f : 0.2f); /* Keras 3 changed it; TF.js has the old one */
        build_float(b, ATTR_beta, 0.5f);
        return y;
    }
    if (layer_named(name, "gelunew")) {
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
    float threshold = (float)tfjs_json_number(c->l->config, "threshold", 0.0);
    if (threshold != 0.0f) { /* below it: slope * (x - threshold) */
        uint32_t edge = build_f32_scalar(b, threshold);
        uint32_t low = build_2(b, OP_Mul, build_2(b, OP_Sub, x, edge), build_f32_scalar(b, (float)slope));
        y = build_3(b, OP_Where, build_2(b, OP_Less, x, edge), low, x);
    } else
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
    unmask(c);
}

/* A size that is null is what is left, as -1 is. */
static int target_read(const struct kcall *c, int64_t *dims)
{
    const cJSON *dim, *list = tfjs_json_get(c->l->config, "target_shape");
    int count = 0;
    if (!cJSON_IsArray(list))
        return tfjs_json_integer(list, dims) ? 1 : -1;
    cJSON_ArrayForEach(dim, list)
    {
        if (count == PEN_MAX_RANK - 1 || !(cJSON_IsNull(dim) || tfjs_json_integer(dim, &dims[count])))
            return -1;
        dims[count] = cJSON_IsNull(dim) ? -1 : dims[count];
        count++;
    }
    return count;
}

/* [0, target...]: 0 keeps the batch. */
static void reshape(struct kcall *c)
{
    int64_t dims[PEN_MAX_RANK] = {0};
    int count = target_read(c, dims + 1);
    for (int i = 1; i <= count; i++) {
        if (dims[i] == 0 || dims[i] < -1)
            count = -1;
    }
    if (count < 0) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its target shape makes no sense");
        return;
    }
    layer_give(c, build_2(c->b, OP_Reshape, c->in[0].value, build_i64(c->b, dims, (uint32_t)count + 1)), count + 1);
    unmask(c);
}

static void permute(struct kcall *c)
{
    int64_t perm[PEN_MAX_RANK] = {0};
    int count = tfjs_json_ints(tfjs_json_get(c->l->config, "dims"), perm + 1, PEN_MAX_RANK - 1, 1);
    if (count < 0)
        build_stop(c->b, PEN_ERR_CORRUPT, "its dims make no sense");
    else
        layer_give(c, build_transpose(c->b, c->in[0].value, perm, (uint32_t)count + 1), count + 1);
    unmask(c);
}

static void repeat_vector(struct kcall *c)
{
    int64_t times[] = {1, tfjs_json_int(c->l->config, "n", 1), 1};
    uint32_t x = build_unsqueeze(c->b, c->in[0].value, 1);
    layer_give(c, build_2(c->b, OP_Tile, x, build_i64(c->b, times, 3)), 3);
    unmask(c);
}

static void embedding(struct kcall *c)
{
    uint32_t in[] = {layer_weight_needed(c, "embeddings"), build_cast(c->b, c->in[0].value, PEN_DTYPE_I32)};
    layer_give(c, build_axis_op(c->b, OP_Gather, in, 2, 0), c->in[0].rank + 1);
    unmask(c);
    if (tfjs_json_bool(c->l->config, "mask_zero", false))
        c->out[0].mask = build_1(c->b, OP_Not, build_2(c->b, OP_Equal, in[1], build_scalar(c->b, PEN_DTYPE_I32, 0)));
}

/* Steps that hold nothing but mask_value become zeros and are passed over by the recurrent layers behind. */
static void masking(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t x = c->in[0].value, skip = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "mask_value", 0.0));
    uint32_t other = build_1(b, OP_Not, build_2(b, OP_Equal, x, skip));
    uint32_t any =
        build_reduce(b, OP_ReduceMax, build_cast(b, other, PEN_DTYPE_F32), build_i64(b, (int64_t[]){-1}, 1), true);
    layer_give(c, build_2(b, OP_Mul, x, any), c->in[0].rank);
    if (c->in[0].rank == 3)
        c->out[0].mask = build_cast(b, build_squeeze(b, any, -1), PEN_DTYPE_BOOL);
}

/* ---- merges -------------------------------------------------------------------------------------------------------------------- */

static int32_t highest_rank(const struct kcall *c)
{
    int32_t rank = 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        rank = c->in[i].rank > rank ? c->in[i].rank : rank;
    return rank;
}

/* A step of several tensors counts when it does in all of them. */
static void masks_join(struct kcall *c)
{
    uint32_t mask = VALUE_NONE;
    for (uint32_t i = 0; i < c->in_count; i++) {
        uint32_t other = c->in[i].mask;
        mask = mask == VALUE_NONE                     ? other
               : other == VALUE_NONE || other == mask ? mask
                                                      : build_2(c->b, OP_And, mask, other);
    }
    if (c->out_count > 0)
        c->out[0].mask = mask;
}

static void merge(struct kcall *c)
{
    uint32_t y = c->in[0].value;
    for (uint32_t i = 1; i < c->in_count; i++)
        y = build_2(c->b, (enum op)c->op, y, c->in[i].value);
    layer_give(c, y, highest_rank(c));
    masks_join(c);
}

static void average(struct kcall *c)
{
    uint32_t y = c->in[0].value;
    for (uint32_t i = 1; i < c->in_count; i++)
        y = build_2(c->b, OP_Add, y, c->in[i].value);
    layer_give(c, build_2(c->b, OP_Mul, y, build_f32_scalar(c->b, 1.0f / (float)c->in_count)), highest_rank(c));
    masks_join(c);
}

static void concatenate(struct kcall *c)
{
    uint32_t parts[LAYER_TENSORS_MAX];
    for (uint32_t i = 0; i < c->in_count; i++)
        parts[i] = c->in[i].value;
    layer_give(c, build_axis_op(c->b, OP_Concat, parts, c->in_count, tfjs_json_int(c->l->config, "axis", -1)),
               c->in[0].rank);
    masks_join(c);
}

/* Batches of vectors or matrices, contracted along one axis of each. */
static void dot(struct kcall *c)
{
    struct build *b = c->b;
    static const int64_t swap[] = {0, 2, 1};
    int64_t axes[2];
    int count = tfjs_json_ints(tfjs_json_get(c->l->config, "axes"), axes, 2, 2);
    if (c->in_count != 2 || count != 2 || c->in[0].rank < 2 || c->in[0].rank > 3 || c->in[1].rank < 2 ||
        c->in[1].rank > 3) {
        build_miss(b, "Dot of such tensors");
        return;
    }
    uint32_t x = c->in[0].value, y = c->in[1].value;
    int32_t left = c->in[0].rank, right = c->in[1].rank;
    if (tfjs_json_bool(c->l->config, "normalize", false)) {
        x = tf_l2_normalise(b, x, axes[0], 1e-12f);
        y = tf_l2_normalise(b, y, axes[1], 1e-12f);
    }
    axes[0] += axes[0] < 0 ? left : 0;
    axes[1] += axes[1] < 0 ? right : 0;
    x = left == 2 ? build_unsqueeze(b, x, 1) : axes[0] == 1 ? build_transpose(b, x, swap, 3) : x;
    y = right == 2 ? build_unsqueeze(b, y, 2) : axes[1] == 2 ? build_transpose(b, y, swap, 3) : y;
    uint32_t z = build_2(b, OP_MatMul, x, y); /* [batch, rest of x, rest of y] */
    if (left == 2 && right == 2)
        layer_give(c, build_squeeze(b, z, 2), 2);
    else if (left == 2 || right == 2)
        layer_give(c, build_squeeze(b, z, left == 2 ? 1 : 2), 2);
    else
        layer_give(c, z, 3);
    unmask(c);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------- */

static void rescaling(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t scale = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "scale", 1.0));
    uint32_t offset = build_f32_scalar(b, (float)tfjs_json_number(c->l->config, "offset", 0.0));
    layer_give(c, build_2(b, OP_Add, build_2(b, OP_Mul, c->in[0].value, scale), offset), c->in[0].rank);
}

/* Numbers to rows that tell which there are (multi_hot), how often (count), or the one there is (one_hot). */
static void category_encoding(struct kcall *c)
{
    struct build *b = c->b;
    const char *how = tfjs_json_text(c->l->config, "output_mode");
    int64_t tokens = tfjs_json_int(c->l->config, "num_tokens", 0);
    uint32_t depth = build_i64_scalar(b, tokens), on = build_f32_scalar(b, 1.0f), off = build_f32_scalar(b, 0.0f),
             x = c->in[0].value;
    if (tokens < 1 || tokens > INT32_MAX) {
        build_stop(b, PEN_ERR_INVALID, "it encodes %lld numbers", (long long)tokens);
        return;
    }
    bool one = how && layer_named(how, "onehot"), count = how && layer_named(how, "count");
    if (one && c->in[0].rank > 1 && build_dim(b, x, -1) == 1)
        x = build_squeeze(b, x, -1);
    uint32_t y = tf_one_hot(b, x, depth, on, off, -1);
    if (!one)
        y = build_reduce(b, count ? OP_ReduceSum : OP_ReduceMax, y, build_i64(b, (int64_t[]){-2}, 1), false);
    layer_give(c, y, one && x == c->in[0].value ? c->in[0].rank + 1 : c->in[0].rank);
}

const struct layer_row layers_core[] = {
    LAYER_ROW(InputLayer, same, 0),
    LAYER_ROW(Dense, dense, 0),
    LAYER_ROW(Activation, activation, 0),
    LAYER_ROW(Dropout, same, 0),
    LAYER_ROW(Identity, same, 0),
    LAYER_ROW(SpatialDropout1D, same, 0),
    LAYER_ROW(SpatialDropout2D, same, 0),
    LAYER_ROW(SpatialDropout3D, same, 0),
    LAYER_ROW(GaussianNoise, same, 0),
    LAYER_ROW(GaussianDropout, same, 0),
    LAYER_ROW(AlphaDropout, same, 0),
    LAYER_ROW(ActivityRegularization, same, 0),
    LAYER_ROW(ReLU, relu, 0),
    LAYER_ROW(LeakyReLU, leaky_relu, 0),
    LAYER_ROW(PReLU, prelu, 0),
    LAYER_ROW(ELU, elu, 0),
    LAYER_ROW(ThresholdedReLU, thresholded_relu, 0),
    LAYER_ROW(Softmax, softmax, 0),
    LAYER_ROW(Flatten, flatten, 0),
    LAYER_ROW(Reshape, reshape, 0),
    LAYER_ROW(Permute, permute, 0),
    LAYER_ROW(RepeatVector, repeat_vector, 0),
    LAYER_ROW(Embedding, embedding, 0),
    LAYER_ROW(Masking, masking, 0),
    LAYER_ROW(Add, merge, OP_Add),
    LAYER_ROW(Subtract, merge, OP_Sub),
    LAYER_ROW(Multiply, merge, OP_Mul),
    LAYER_ROW(Maximum, merge, OP_Max),
    LAYER_ROW(Minimum, merge, OP_Min),
    LAYER_ROW(Average, average, 0),
    LAYER_ROW(Concatenate, concatenate, 0),
    LAYER_ROW(Dot, dot, 0),
    LAYER_ROW(CategoryEncoding, category_encoding, 0),
    LAYER_ROW(Rescaling, rescaling, 0),
    {NULL, NULL, 0},
};
