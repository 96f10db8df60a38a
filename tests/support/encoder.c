#include "encoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_writer.h"
#include "process.h"

const struct encoder encoder_minilm = {
    .layers = 6, .hidden = 384, .heads = 12, .inner = 1536, .vocabulary = 30522, .positions = 512, .seed = 384};

enum { F32 = 1, I64 = 7 }; /* TensorProto's */
#define TYPES 16           /* of tokens; 2 are used, but a bench feeds any small integers */

struct net {
    const struct encoder *e;
    struct onnx_writer *w;
    uint64_t state; /* of the random numbers */
};

/* splitmix64; uniform in [-1, 1) */
static float random_one(struct net *n)
{
    uint64_t z = n->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (float)((z ^ (z >> 31)) >> 40) * 0x1p-23f - 1.0f;
}

/* center + scale * random, named `name`. */
static void weight(struct net *n, const char *name, size_t rank, const int64_t *dims, float center, float scale)
{
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    float *items = malloc(count * sizeof *items);
    if (items == NULL) {
        support_fail("out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = center + scale * random_one(n);
    }
    onnx_writer_constant(n->w, name, F32, rank, dims, items, count * sizeof *items);
    free(items);
}

static void scalar(struct net *n, const char *name, float item)
{
    onnx_writer_constant(n->w, name, F32, 0, NULL, &item, sizeof item);
}

static void integers(struct net *n, const char *name, int64_t count, const int64_t *items)
{
    onnx_writer_constant(n->w, name, I64, 1, &count, items, (size_t)count * sizeof *items);
}

static const char *pair(struct net *n, const char *op, const char *a, const char *b)
{
    return onnx_writer_step(n->w, op, ONNX_LIST(a, b), NULL);
}

static const char *turned(struct net *n, const char *x, const int64_t perm[4])
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "perm", .ints = perm, .count = 4}, {0}};
    return onnx_writer_step(n->w, "Transpose", ONNX_LIST(x), attrs);
}

/* x W + b */
static const char *linear(struct net *n, const char *layer, const char *part, const char *x, int64_t in, int64_t out)
{
    char w[64], b[64];
    snprintf(w, sizeof w, "%s.%s.weight", layer, part);
    snprintf(b, sizeof b, "%s.%s.bias", layer, part);
    weight(n, w, 2, (int64_t[]){in, out}, 0.0f, sqrtf(3.0f / (float)in));
    weight(n, b, 1, &out, 0.0f, 0.1f);
    return pair(n, "Add", b, pair(n, "MatMul", x, w));
}

static const char *mean(struct net *n, const char *x)
{
    static const int64_t last[] = {-1};
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "axes", .ints = last, .count = 1}, {0}};
    return onnx_writer_step(n->w, "ReduceMean", ONNX_LIST(x), attrs);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, in seven operators as exporters write it before opset 17 */
static const char *layer_norm(struct net *n, const char *layer, const char *part, const char *x)
{
    char scale[64], bias[64];
    snprintf(scale, sizeof scale, "%s.%s.scale", layer, part);
    snprintf(bias, sizeof bias, "%s.%s.shift", layer, part);
    weight(n, scale, 1, &n->e->hidden, 1.0f, 0.2f);
    weight(n, bias, 1, &n->e->hidden, 0.0f, 0.1f);
    const char *centred = pair(n, "Sub", x, mean(n, x));
    const char *variance = mean(n, pair(n, "Pow", centred, "two"));
    const char *deviation = onnx_writer_step(n->w, "Sqrt", ONNX_LIST(pair(n, "Add", variance, "epsilon")), NULL);
    return pair(n, "Add", pair(n, "Mul", pair(n, "Div", centred, deviation), scale), bias);
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static const char *gelu(struct net *n, const char *x)
{
    const char *erf = onnx_writer_step(n->w, "Erf", ONNX_LIST(pair(n, "Div", x, "root_two")), NULL);
    return pair(n, "Mul", pair(n, "Mul", x, pair(n, "Add", erf, "one")), "half");
}

/* [batch, length, hidden] -> [batch, length, heads, hidden / heads] or back to hidden: the sizes come from x. */
static const char *reshaped(struct net *n, const char *x, const char *const *last)
{
    const char *shape = onnx_writer_step(n->w, "Shape", ONNX_LIST(x), NULL);
    const char *batch = pair(n, "Gather", shape, "i0"), *length = pair(n, "Gather", shape, "i1");
    const struct onnx_attr axis[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}};
    const char *parts[5] = {batch, length, last[0], last[1], NULL};
    return pair(n, "Reshape", x, onnx_writer_step(n->w, "Concat", parts, axis));
}

static const char *attention(struct net *n, const char *layer, const char *x, const char *mask)
{
    static const int64_t heads_first[4] = {0, 2, 1, 3}, keys[4] = {0, 2, 3, 1};
    const int64_t h = n->e->hidden;
    const char *const split[2] = {"heads", "each"}, *const join[2] = {"hidden", NULL};
    const char *q = turned(n, reshaped(n, linear(n, layer, "query", x, h, h), split), heads_first);
    const char *k = turned(n, reshaped(n, linear(n, layer, "key", x, h, h), split), keys);
    const char *v = turned(n, reshaped(n, linear(n, layer, "value", x, h, h), split), heads_first);
    const char *scores = pair(n, "Add", pair(n, "Div", pair(n, "MatMul", q, k), "root_each"), mask);
    const struct onnx_attr axis[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = -1}, {0}};
    const char *shares = onnx_writer_step(n->w, "Softmax", ONNX_LIST(scores), axis);
    const char *mixed = turned(n, pair(n, "MatMul", shares, v), heads_first);
    return linear(n, layer, "output", reshaped(n, mixed, join), h, h);
}

static const char *layer_put(struct net *n, int64_t index, const char *x, const char *mask)
{
    char layer[32];
    snprintf(layer, sizeof layer, "layer%lld", (long long)index);
    const char *y = layer_norm(n, layer, "norm1", pair(n, "Add", attention(n, layer, x, mask), x));
    const char *inner = gelu(n, linear(n, layer, "up", y, n->e->hidden, n->e->inner));
    return layer_norm(n, layer, "norm2", pair(n, "Add", linear(n, layer, "down", inner, n->e->inner, n->e->hidden), y));
}

static void constants_put(struct net *n)
{
    const struct encoder *e = n->e;
    int64_t *positions = malloc((size_t)e->positions * sizeof *positions);
    if (positions == NULL) {
        support_fail("out of memory");
    }
    for (int64_t i = 0; i < e->positions; i++) {
        positions[i] = i;
    }
    onnx_writer_constant(n->w, "positions", I64, 2, (int64_t[]){1, e->positions}, positions,
                         (size_t)e->positions * sizeof *positions);
    free(positions);
    scalar(n, "one", 1.0f), scalar(n, "half", 0.5f), scalar(n, "two", 2.0f), scalar(n, "epsilon", 1e-12f);
    scalar(n, "root_two", 1.41421354f), scalar(n, "root_each", sqrtf((float)(e->hidden / e->heads)));
    scalar(n, "far", -10000.0f);
    integers(n, "i0", 1, (int64_t[]){0}), integers(n, "i1", 1, (int64_t[]){1}),
        integers(n, "i12", 2, (int64_t[]){1, 2});
    integers(n, "heads", 1, &e->heads), integers(n, "hidden", 1, &e->hidden);
    integers(n, "each", 1, (int64_t[]){e->hidden / e->heads});
}

static const char *embedded(struct net *n)
{
    const struct encoder *e = n->e;
    weight(n, "embeddings.word", 2, (int64_t[]){e->vocabulary, e->hidden}, 0.0f, 0.5f);
    weight(n, "embeddings.position", 2, (int64_t[]){e->positions, e->hidden}, 0.0f, 0.2f);
    weight(n, "embeddings.type", 2, (int64_t[]){TYPES, e->hidden}, 0.0f, 0.2f);
    const char *length = pair(n, "Gather", onnx_writer_step(n->w, "Shape", ONNX_LIST("input_ids"), NULL), "i1");
    const char *at = onnx_writer_step(n->w, "Slice", ONNX_LIST("positions", "i0", length, "i1"), NULL);
    const char *words = pair(n, "Add", pair(n, "Gather", "embeddings.word", "input_ids"),
                             pair(n, "Gather", "embeddings.type", "token_type_ids"));
    return layer_norm(n, "embeddings", "norm", pair(n, "Add", words, pair(n, "Gather", "embeddings.position", at)));
}

/* 0 where the mask is 1, far below where it is 0: [batch, 1, 1, length] */
static const char *mask_made(struct net *n)
{
    const struct onnx_attr to[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = F32}, {0}};
    const char *wide = pair(n, "Unsqueeze", "attention_mask", "i12");
    const char *here = onnx_writer_step(n->w, "Cast", ONNX_LIST(wide), to);
    return pair(n, "Mul", pair(n, "Sub", "one", here), "far");
}

void encoder_write(const struct encoder *e, const char *path)
{
    static const char *const inputs[] = {"input_ids", "attention_mask", "token_type_ids"};
    static const char *const symbols[] = {"batch", "length", NULL};
    struct net n = {.e = e, .w = onnx_writer_new("encoder"), .state = e->seed};
    for (size_t i = 0; i < 3; i++) {
        onnx_writer_input(n.w, inputs[i], I64, 2, (int64_t[]){-1, -1}, symbols);
    }
    constants_put(&n);
    const char *mask = mask_made(&n), *x = embedded(&n);
    for (int64_t i = 0; i < e->layers; i++) {
        x = layer_put(&n, i, x, mask);
    }
    onnx_writer_node(n.w, "Identity", ONNX_LIST(x), ONNX_LIST("last_hidden_state"), NULL);
    onnx_writer_output(n.w, "last_hidden_state", F32, 3, (int64_t[]){-1, -1, e->hidden}, symbols);
    onnx_writer_save(n.w, 16, path);
    onnx_writer_free(n.w);
}
