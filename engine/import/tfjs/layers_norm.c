/* Normalising layers. */
#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

uint32_t layer_filled(struct kcall *c, int64_t count, float item)
{
    struct shape shape = shape_of(1, &count);
    float *items = count >= 0 && count < INT32_MAX ? graph_alloc(c->b->g, (size_t)count * sizeof *items + 64) : NULL;
    if (!items) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
        return VALUE_NONE;
    }
    for (int64_t i = 0; i < count; i++)
        items[i] = item;
    return build_const(c->b, PEN_DTYPE_F32, &shape, items, (size_t)count * sizeof *items, false);
}

int layer_axes(const struct kcall *c, const char *field, int64_t def, int64_t *axes)
{
    const cJSON *item = tfjs_json_get(c->l->config, field);
    int count = item ? tfjs_json_ints(item, axes, PEN_MAX_RANK, 1) : 1;
    if (!item)
        axes[0] = def;
    for (int i = 0; i < count; i++) {
        axes[i] += axes[i] < 0 ? c->in[0].rank : 0;
        if (axes[i] < 0 || axes[i] >= c->in[0].rank)
            return -1;
    }
    return count;
}

/* A list along `axis` seen so that it broadcasts against the data. */
static uint32_t along(struct kcall *c, uint32_t list, int64_t axis)
{
    int64_t dims[PEN_MAX_RANK];
    for (int32_t i = 0; i < c->in[0].rank; i++)
        dims[i] = i == axis ? -1 : 1;
    return build_reshape(c->b, list, dims, (uint32_t)c->in[0].rank);
}

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta, axis by axis: for data whose channels are neither first nor last */
static uint32_t normalised_along(struct kcall *c, const uint32_t *in, int64_t axis, float epsilon)
{
    struct build *b = c->b;
    uint32_t root = build_1(b, OP_Sqrt, build_2(b, OP_Add, in[4], build_f32_scalar(b, epsilon)));
    uint32_t scale = build_2(b, OP_Div, in[1], root),
             shift = build_2(b, OP_Sub, in[2], build_2(b, OP_Mul, in[3], scale));
    return build_2(b, OP_Add, build_2(b, OP_Mul, in[0], along(c, scale, axis)), along(c, shift, axis));
}

static void batch_normalization(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axes[PEN_MAX_RANK];
    float epsilon = (float)tfjs_json_number(c->l->config, "epsilon", 0.001);
    uint32_t mean = layer_weight_needed(c, "moving_mean"), gamma = layer_weight(c, "gamma"),
             beta = layer_weight(c, "beta");
    const struct value *v = build_value(b, mean);
    if (layer_axes(c, "axis", -1, axes) != 1) {
        build_miss(b, "BatchNormalization along such an axis");
        return;
    }
    if (!v)
        return;
    int64_t count = shape_elements(&v->shape);
    bool last = axes[0] == c->in[0].rank - 1;
    uint32_t in[] = {c->in[0].value, gamma != VALUE_NONE ? gamma : layer_filled(c, count, 1.0f),
                     beta != VALUE_NONE ? beta : layer_filled(c, count, 0.0f), mean,
                     layer_weight_needed(c, "moving_variance")};
    if (!last && axes[0] != 1) {
        layer_give(c, normalised_along(c, in, axes[0], epsilon), c->in[0].rank);
        return;
    }
    uint32_t y = build_op(b, OP_BatchNormalization, in, 5);
    if (last)
        build_int(b, ATTR_layout, LAYOUT_NHWC);
    build_float(b, ATTR_epsilon, epsilon);
    layer_give(c, y, c->in[0].rank);
}

/* gamma and beta have the normalised axes, in the order of the data. */
static uint32_t spread(struct kcall *c, uint32_t weight, const int64_t *axes, int count)
{
    const struct value *v = build_value(c->b, weight);
    int64_t dims[PEN_MAX_RANK];
    for (int32_t i = 0; i < PEN_MAX_RANK; i++)
        dims[i] = 1;
    if (!v || v->shape.rank != count) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its weights do not suit %d axes", count);
        return VALUE_NONE;
    }
    for (int i = 0; i < count; i++)
        dims[axes[i]] = v->shape.dim[i];
    return build_reshape(c->b, weight, dims, (uint32_t)c->in[0].rank);
}

static uint32_t normalised(struct build *b, uint32_t x, const int64_t *axes, int count, float epsilon)
{
    uint32_t list = build_i64(b, axes, (uint32_t)count);
    uint32_t off = build_2(b, OP_Sub, x, build_reduce(b, OP_ReduceMean, x, list, true));
    uint32_t variance = build_reduce(b, OP_ReduceMean, build_2(b, OP_Mul, off, off), list, true);
    return build_2(b, OP_Div, off, build_1(b, OP_Sqrt, build_2(b, OP_Add, variance, build_f32_scalar(b, epsilon))));
}

static void layer_normalization(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axes[PEN_MAX_RANK];
    float epsilon = (float)tfjs_json_number(c->l->config, "epsilon", 0.001);
    uint32_t gamma = layer_weight(c, "gamma"), beta = layer_weight(c, "beta"), y;
    int count = layer_axes(c, "axis", -1, axes);
    if (count < 1) {
        build_stop(b, PEN_ERR_CORRUPT, "its axes make no sense");
        return;
    }
    if (count == 1 && axes[0] == c->in[0].rank - 1 && gamma != VALUE_NONE) {
        y = build_3(b, OP_LayerNormalization, c->in[0].value, gamma, beta);
        build_int(b, ATTR_axis, -1);
        build_float(b, ATTR_epsilon, epsilon);
    } else {
        y = normalised(b, c->in[0].value, axes, count, epsilon);
        if (gamma != VALUE_NONE)
            y = build_2(b, OP_Mul, y, spread(c, gamma, axes, count));
        if (beta != VALUE_NONE)
            y = build_2(b, OP_Add, y, spread(c, beta, axes, count));
    }
    layer_give(c, y, c->in[0].rank);
}

/* Groups of neighbouring channels (the last axis) are normalised over all other axes but the batch. */
static void group_normalization(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axes[PEN_MAX_RANK], groups = tfjs_json_int(c->l->config, "groups", 32), within[PEN_MAX_RANK];
    float epsilon = (float)tfjs_json_number(c->l->config, "epsilon", 0.001);
    int32_t rank = c->in[0].rank, count = 0;
    uint32_t x = c->in[0].value, gamma = layer_weight(c, "gamma"), beta = layer_weight(c, "beta");
    if (layer_axes(c, "axis", -1, axes) != 1 || axes[0] != rank - 1 || rank < 2 || rank >= PEN_MAX_RANK ||
        groups == 0) {
        build_miss(b, "GroupNormalization along another axis than the last");
        return;
    }
    uint32_t shape = build_1(b, OP_Shape, x), front = build_slice(b, shape, 0, 0, -1, 1);
    if (groups < 0)
        groups = build_dim(b, x, rank - 1);
    uint32_t parts[] = {front, build_i64(b, (int64_t[]){groups, -1}, 2)};
    x = build_2(b, OP_Reshape, x, build_axis_op(b, OP_Concat, parts, 2, 0));
    for (int32_t i = 1; i <= rank; i++) {
        if (i != rank - 1)
            within[count++] = i;
    }
    uint32_t y = build_2(b, OP_Reshape, normalised(b, x, within, count, epsilon), shape);
    if (gamma != VALUE_NONE)
        y = build_2(b, OP_Mul, y, gamma);
    layer_give(c, beta == VALUE_NONE ? y : build_2(b, OP_Add, y, beta), rank);
}

static void unit_normalization(struct kcall *c)
{
    struct build *b = c->b;
    int64_t axes[PEN_MAX_RANK];
    int count = layer_axes(c, "axis", -1, axes);
    uint32_t x = c->in[0].value;
    if (count < 1) {
        build_stop(b, PEN_ERR_CORRUPT, "its axes make no sense");
        return;
    }
    uint32_t sum = build_reduce(b, OP_ReduceSumSquare, x, build_i64(b, axes, (uint32_t)count), true);
    uint32_t least = build_2(b, OP_Max, sum, build_f32_scalar(b, 1e-12f));
    layer_give(c, build_2(b, OP_Div, x, build_1(b, OP_Sqrt, least)), c->in[0].rank);
}

const struct layer_row layers_norm[] = {
    LAYER_ROW(GroupNormalization, group_normalization, 0),
    LAYER_ROW(UnitNormalization, unit_normalization, 0),
    LAYER_ROW(BatchNormalization, batch_normalization, 0),
    LAYER_ROW(LayerNormalization, layer_normalization, 0),
    {NULL, NULL, 0},
};
