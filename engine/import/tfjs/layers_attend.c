/* Attention: MultiHeadAttention, Attention, AdditiveAttention. TF.js itself has none of them; these are Keras' formulas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

/* Query, value and key of a call; the key is the value where none is given. False: masked, which is not read. */
static bool inputs_of(struct kcall *c, uint32_t *ret_query, uint32_t *ret_value, uint32_t *ret_key)
{
    const cJSON *mask = tfjs_json_get(c->l->kwargs, "attention_mask");
    bool masked = mask && !cJSON_IsNull(mask);
    for (uint32_t i = 0; i < c->in_count; i++)
        masked = masked || c->in[i].mask != VALUE_NONE || c->in[i].rank != 3;
    if (masked || c->in_count < 2) {
        build_miss(c->b, masked ? "attention under a mask, or of more dimensions than 3" : "attention without a value");
        return false;
    }
    *ret_query = c->in[0].value;
    *ret_value = c->in[1].value;
    *ret_key = c->in[c->in_count > 2 ? 2 : 1].value;
    return true;
}

/* Keys behind the query's place count for nothing. */
static uint32_t causal(struct kcall *c, uint32_t scores, uint32_t query, uint32_t key)
{
    struct build *b = c->b;
    if (!tfjs_json_bool(c->l->kwargs, "use_causal_mask", false))
        return scores;
    uint32_t sizes[] = {build_slice(b, build_1(b, OP_Shape, query), 0, 1, 2, 1),
                        build_slice(b, build_1(b, OP_Shape, key), 0, 1, 2, 1)};
    uint32_t far = tf_fill(b, build_axis_op(b, OP_Concat, sizes, 2, 0), build_f32_scalar(b, -1e9f));
    uint32_t mask = build_2(b, OP_Trilu, far, build_i64_scalar(b, 1));
    build_int(b, ATTR_upper, 1);
    return build_2(b, OP_Add, scores, mask);
}

static uint32_t soft(struct kcall *c, uint32_t scores)
{
    return build_axis_op(c->b, OP_Softmax, &scores, 1, -1);
}

/* A dense part of the layer: the sizes of its kernel, which is [in, heads, size] or [heads, size, out]. */
struct dense {
    uint32_t kernel, bias;
    int64_t dims[3];
};

static bool dense_read(struct kcall *c, const char *old, const char *now, struct dense *ret)
{
    struct klayer part = *c->l, *outer = c->l;
    part.part = old;
    snprintf(part.part_place, sizeof part.part_place, "/%s", now);
    c->l = &part;
    ret->kernel = layer_weight_needed(c, "kernel");
    ret->bias = tfjs_json_bool(part.config, "use_bias", true) ? layer_weight_needed(c, "bias") : VALUE_NONE;
    c->l = outer;
    const struct value *v = build_value(c->b, ret->kernel);
    if (!v || v->shape.rank != 3) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its weights need 3 dimensions");
        return false;
    }
    memcpy(ret->dims, v->shape.dim, sizeof ret->dims);
    return true;
}

/* x [batch, steps, in] -> [batch, heads, steps, size] */
static uint32_t headed(struct kcall *c, uint32_t x, const struct dense *d)
{
    struct build *b = c->b;
    int64_t wide = d->dims[1] * d->dims[2];
    uint32_t y = build_2(b, OP_MatMul, x, build_reshape(b, d->kernel, (int64_t[]){d->dims[0], wide}, 2));
    if (d->bias != VALUE_NONE)
        y = build_2(b, OP_Add, y, build_reshape(b, d->bias, &wide, 1));
    y = build_2(b, OP_Reshape, y, build_i64(b, (int64_t[]){0, -1, d->dims[1], d->dims[2]}, 4)); /* 0: the batch stays */
    return build_transpose(b, y, (int64_t[]){0, 2, 1, 3}, 4);
}

static void multi_head(struct kcall *c)
{
    struct build *b = c->b;
    struct dense q, k, v, out;
    uint32_t query, value, key;
    if (!inputs_of(c, &query, &value, &key) || !dense_read(c, "query", "query_dense", &q) ||
        !dense_read(c, "key", "key_dense", &k) || !dense_read(c, "value", "value_dense", &v) ||
        !dense_read(c, "attention_output", "output_dense", &out))
        return;
    if (tfjs_json_bool(c->l->config, "use_gate", false) ||
        cJSON_IsNumber(tfjs_json_get(c->l->config, "sliding_window"))) {
        build_miss(b, "MultiHeadAttention with a gate or a window");
        return;
    }
    uint32_t keys = build_transpose(b, headed(c, key, &k), (int64_t[]){0, 1, 3, 2}, 4);
    uint32_t scores = build_2(b, OP_MatMul, headed(c, query, &q), keys);
    scores = build_2(b, OP_Mul, scores, build_f32_scalar(b, (float)(1.0 / sqrt((double)q.dims[2]))));
    uint32_t y = build_2(b, OP_MatMul, soft(c, causal(c, scores, query, key)), headed(c, value, &v));
    int64_t wide = out.dims[0] * out.dims[1];
    y = build_2(b, OP_Reshape, build_transpose(b, y, (int64_t[]){0, 2, 1, 3}, 4),
                build_i64(b, (int64_t[]){0, -1, wide}, 3));
    y = build_2(b, OP_MatMul, y, build_reshape(b, out.kernel, (int64_t[]){wide, out.dims[2]}, 2));
    layer_give(c, out.bias == VALUE_NONE ? y : build_2(b, OP_Add, y, out.bias), 3);
}

/* The scores of a query and a key: their product, or (op 1) the sum over tanh(query + key); either may have a scale. */
static void attention(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t query, value, key, scores, scale = VALUE_NONE;
    const char *mode = tfjs_json_text(c->l->config, "score_mode");
    if (!inputs_of(c, &query, &value, &key))
        return;
    if (mode && strcmp(mode, "dot") != 0) {
        build_miss(b, "Attention by concatenation");
        return;
    }
    if (tfjs_json_bool(c->l->config, "use_scale", c->op == 1))
        scale = layer_weight_needed(c, "scale");
    if (c->op == 1) {
        scores = build_1(b, OP_Tanh, build_2(b, OP_Add, build_unsqueeze(b, query, 2), build_unsqueeze(b, key, 1)));
        scores = scale == VALUE_NONE ? scores : build_2(b, OP_Mul, scores, scale);
        scores = build_reduce(b, OP_ReduceSum, scores, build_i64(b, (int64_t[]){-1}, 1), false);
    } else {
        scores = build_2(b, OP_MatMul, query, build_transpose(b, key, (int64_t[]){0, 2, 1}, 3));
        scores = scale == VALUE_NONE ? scores : build_2(b, OP_Mul, scores, scale);
    }
    layer_give(c, build_2(b, OP_MatMul, soft(c, causal(c, scores, query, key)), value), 3);
}

const struct layer_row layers_attend[] = {
    LAYER_ROW(AdditiveAttention, attention, 1),
    LAYER_ROW(Attention, attention, 0),
    LAYER_ROW(MultiHeadAttention, multi_head, 0),
    {NULL, NULL, 0},
};
