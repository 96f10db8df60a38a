/* com.microsoft Attention and MultiHeadAttention: the same core, other ways to give queries, masks and caches. Source: ONNX Runtime's contrib operators. */
#include "backend/reference/attention.h"

#include <math.h>
#include <string.h>

/* The sum of what hides or biases scores: [batch, heads, queries, keys] in double. */
struct bias {
    double *items;
    int64_t batch, heads, queries, keys;
};

static enum pen_status bias_new(struct kernel_call *k, const struct attention *a, struct bias *b, struct rt_value *ret)
{
    *b = (struct bias){NULL, a->batch, a->q.heads, a->q.length, a->k.length};
    size_t bytes = (size_t)(b->batch * b->heads * b->queries * b->keys) * sizeof *b->items;
    b->items = kernel_scratch(k, bytes);
    if (b->items == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the mask");
    }
    memset(b->items, 0, bytes);
    *ret = (struct rt_value){.dtype = PEN_DTYPE_F64,
                             .shape = shape_of(4, (const int64_t[]){b->batch, b->heads, b->queries, b->keys}),
                             .data = b->items,
                             .bytes = bytes};
    return PEN_OK;
}

/* True when key j is hidden from query i: lengths [batch], flags [batch, keys] or [batch, queries, keys]; 0 hides. */
static bool hidden(const struct rt_value *mask, const struct bias *b, int64_t n, int64_t i, int64_t j)
{
    if (mask->shape.rank == 1) {
        return j >= load_one_i64(mask->data, mask->dtype, n);
    }
    int64_t at = mask->shape.rank == 2 ? n * b->keys + j : (n * b->queries + i) * b->keys + j;
    return load_one_i64(mask->data, mask->dtype, at) == 0;
}

static enum pen_status bias_fill(struct kernel_call *k, uint32_t mask_index, uint32_t added_index, const struct bias *b)
{
    const struct rt_value *mask = kernel_has(k, mask_index) ? &k->in[mask_index] : NULL;
    const struct rt_value *added = kernel_has(k, added_index) ? &k->in[added_index] : NULL;
    double filter = (double)node_float(k->n, ATTR_mask_filter_value, -10000.0f);
    int64_t want = mask == NULL            ? 0
                   : mask->shape.rank == 1 ? b->batch
                   : mask->shape.rank == 2 ? b->batch * b->keys
                                           : b->batch * b->queries * b->keys;
    struct shape full = shape_of(4, (const int64_t[]){b->batch, b->heads, b->queries, b->keys}), joined;
    if (mask != NULL && (mask->shape.rank < 1 || mask->shape.rank > 3 || shape_elements(&mask->shape) != want)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "a mask of this shape");
    }
    if (added != NULL && (!shape_broadcast(&added->shape, &full, &joined) || !shape_equal(&joined, &full))) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the attention bias does not fit");
    }
    for (int64_t at = 0; at < shape_elements(&full); at++) {
        int64_t j = at % b->keys, i = at / b->keys % b->queries, n = at / (b->keys * b->queries * b->heads);
        b->items[at] += mask != NULL && hidden(mask, b, n, i, j) ? filter : 0.0;
        if (added != NULL) {
            int64_t place = 0, left = at, stride = 1;
            for (int32_t d = added->shape.rank - 1, f = 3; d >= 0; d--, f--) {
                place += added->shape.dim[d] == 1 ? 0 : left % full.dim[f] * stride;
                stride *= added->shape.dim[d];
                left /= full.dim[f];
            }
            b->items[at] += load_one_f64(added->data, added->dtype, place);
        }
    }
    return PEN_OK;
}

/* past [batch, heads, p, size] (or one half of [2, ...]) in front of the new rows; the present output gets the same. */
static enum pen_status cache_join(struct kernel_call *k, const double *past, int64_t past_length, int64_t batch,
                                  struct heads *side)
{
    int64_t total = past_length + side->length, row = side->size;
    double *to = kernel_scratch(k, (size_t)(batch * side->heads * total * row) * sizeof *to);
    if (to == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the cache");
    }
    for (int64_t i = 0; i < batch * side->heads; i++) {
        for (int64_t t = 0; t < total; t++) {
            const double *from = t < past_length
                                     ? past + (i * past_length + t) * row
                                     : side->items + i / side->heads * side->batch_stride +
                                           i % side->heads * side->head_stride + (t - past_length) * side->row;
            memcpy(to + (i * total + t) * row, from, (size_t)row * sizeof *to);
        }
    }
    struct shape s = shape_of(4, (const int64_t[]){batch, side->heads, total, row});
    heads_of(to, &s, side->heads, side);
    return PEN_OK;
}

static enum pen_status finish(struct kernel_call *k, struct attention *a, uint32_t mask, uint32_t added)
{
    struct bias b;
    struct rt_value bias;
    struct shape y = shape_of(3, (const int64_t[]){a->batch, a->q.length, a->q.heads * a->v.size});
    enum pen_status status = bias_new(k, a, &b, &bias);
    if (status == PEN_OK) {
        status = bias_fill(k, mask, added, &b);
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &y);
    }
    a->mask = &bias;
    a->y = &k->out[0];
    a->scores_stage = -1;
    a->scale = (double)node_float(k->n, ATTR_scale, 0.0f);
    a->scale = a->scale == 0.0 ? 1.0 / sqrt((double)a->q.size) : a->scale;
    a->causal = node_int(k->n, ATTR_unidirectional, 0) != 0;
    a->causal_offset = a->k.length - a->q.length;
    heads_of(NULL, &y, a->q.heads, &a->y_at);
    return status == PEN_OK ? attention_run(k, a) : status;
}

/* [batch, length, width]: x * w[:, first .. first + width) + bias */
static double *project(struct kernel_call *k, const double *x, int64_t rows, int64_t input, int64_t all, int64_t first,
                       int64_t width)
{
    double *y = kernel_scratch(k, (size_t)(rows * width) * sizeof *y),
           *w = kernel_scratch(k, (size_t)width * sizeof *w);
    if (y == NULL || w == NULL) {
        return NULL;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < width; j++) {
            y[r * width + j] = kernel_has(k, 2) ? load_one_f64(k->in[2].data, k->in[2].dtype, first + j) : 0.0;
        }
    }
    for (int64_t i = 0; i < input; i++) {
        load_f64(k->in[1].data, k->in[1].dtype, i * all + first, 1, width, w);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t j = 0; j < width; j++) {
                y[r * width + j] += x[r * input + i] * w[j];
            }
        }
    }
    return y;
}

/* past [2, batch, heads, p, size] joined to keys and values; present is laid out the same. */
static enum pen_status halves_join(struct kernel_call *k, struct attention *a)
{
    double *past = NULL;
    int64_t length = 0;
    if (kernel_has(k, 4)) {
        const struct shape *s = &k->in[4].shape;
        if (s->rank != 5 || s->dim[0] != 2 || s->dim[1] != a->batch || s->dim[2] != a->k.heads ||
            s->dim[4] != a->k.size || a->v.size != a->k.size) {
            return kernel_fail(k, PEN_ERR_SHAPE, "the cache does not fit");
        }
        enum pen_status status = kernel_doubles(k, 4, &past);
        if (status != PEN_OK) {
            return status;
        }
        length = s->dim[3];
    }
    int64_t half = a->batch * a->k.heads * length * a->k.size;
    enum pen_status status = cache_join(k, past, length, a->batch, &a->k);
    if (status == PEN_OK) {
        status = cache_join(k, past != NULL ? past + half : NULL, length, a->batch, &a->v);
    }
    if (status != PEN_OK || !kernel_wants(k, 1)) {
        return status;
    }
    struct shape present = shape_of(5, (const int64_t[]){2, a->batch, a->k.heads, a->k.length, a->k.size});
    status = kernel_output(k, 1, k->in[0].dtype, &present);
    if (status == PEN_OK) {
        int64_t all = shape_elements(&present) / 2;
        store_f64(k->out[1].data, k->in[0].dtype, 0, 1, all, a->k.items);
        store_f64(k->out[1].data, k->in[0].dtype, all, 1, all, a->v.items);
    }
    return status;
}

/* x [batch, length, input], weights [input, q + k + v], bias, mask, past, attention bias */
enum pen_status kernel_ms_attention(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape, *w = &k->in[1].shape;
    int64_t heads = node_int(k->n, ATTR_num_heads, 0);
    uint32_t count = 0;
    const int64_t *sizes = node_ints(k->n, ATTR_qkv_hidden_sizes, &count);
    if (s->rank != 3 || w->rank != 2 || w->dim[0] != s->dim[2] || heads < 1 || (sizes != NULL && count != 3) ||
        (kernel_has(k, 2) && shape_elements(&k->in[2].shape) != w->dim[1]) || node_int(k->n, ATTR_do_rotary, 0) != 0) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "weights do not fit, or rotary positions");
    }
    int64_t third = w->dim[1] / 3, width[3] = {sizes != NULL ? sizes[0] : third, sizes != NULL ? sizes[1] : third,
                                               sizes != NULL ? sizes[2] : third};
    struct attention a = {.batch = s->dim[0]};
    struct heads *sides[3] = {&a.q, &a.k, &a.v};
    int64_t first = 0;
    double *x = NULL;
    enum pen_status status = kernel_doubles(k, 0, &x);
    for (int i = 0; i < 3 && status == PEN_OK; i++) {
        if (width[i] < 1 || width[i] % heads != 0 || first + width[i] > w->dim[1]) {
            return kernel_fail(k, PEN_ERR_SHAPE, "%lld columns for %lld heads", (long long)width[i], (long long)heads);
        }
        double *y = project(k, x, s->dim[0] * s->dim[1], s->dim[2], w->dim[1], first, width[i]);
        struct shape side = shape_of(3, (const int64_t[]){s->dim[0], s->dim[1], width[i]});
        status = y != NULL ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for projections");
        heads_of(y, &side, heads, sides[i]);
        first += width[i];
    }
    if (status == PEN_OK) {
        status = halves_join(k, &a);
    }
    return status == PEN_OK ? finish(k, &a, 3, 5) : status;
}

/* One of query, key, value with its part of the bias; keys and values may come as [batch, heads, length, size] already. */
static enum pen_status side_load(struct kernel_call *k, uint32_t index, int64_t heads, int64_t bias_first,
                                 struct heads *ret)
{
    const struct shape *s = &k->in[index].shape;
    double *items = NULL;
    if (!kernel_has(k, index) || (s->rank != 3 && s->rank != 4) || (s->rank == 3 && s->dim[2] % heads != 0) ||
        (s->rank == 4 && s->dim[1] != heads)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED,
                           "input %u must be [batch, length, heads * size]: packed forms are not taken", index);
    }
    enum pen_status status = kernel_doubles(k, index, &items);
    for (int64_t i = 0; status == PEN_OK && s->rank == 3 && kernel_has(k, 3) && i < shape_elements(s); i++) {
        int64_t at = bias_first + i % s->dim[2];
        items[i] += at < shape_elements(&k->in[3].shape) ? load_one_f64(k->in[3].data, k->in[3].dtype, at) : 0.0;
    }
    heads_of(items, s, heads, ret);
    return status;
}

static enum pen_status past_join(struct kernel_call *k, uint32_t past, uint32_t present, int64_t batch,
                                 struct heads *side)
{
    double *old = NULL;
    int64_t length = 0;
    enum pen_status status = PEN_OK;
    if (kernel_has(k, past)) {
        const struct shape *s = &k->in[past].shape;
        if (s->rank != 4 || s->dim[0] != batch || s->dim[1] != side->heads || s->dim[3] != side->size) {
            return kernel_fail(k, PEN_ERR_SHAPE, "the cache of input %u does not fit", past);
        }
        status = kernel_doubles(k, past, &old);
        length = s->dim[2];
    }
    if (status == PEN_OK) {
        status = cache_join(k, old, length, batch, side);
    }
    if (status != PEN_OK || !kernel_wants(k, present)) {
        return status;
    }
    struct shape s = shape_of(4, (const int64_t[]){batch, side->heads, side->length, side->size});
    status = kernel_output(k, present, k->in[0].dtype, &s);
    if (status == PEN_OK) {
        store_f64(k->out[present].data, k->in[0].dtype, 0, 1, shape_elements(&s), side->items);
    }
    return status;
}

/* query, key, value, bias, key padding mask, attention bias, past key, past value */
enum pen_status kernel_multi_head_attention(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    int64_t heads = node_int(k->n, ATTR_num_heads, 0);
    struct attention a = {.batch = s->rank > 0 ? s->dim[0] : 0};
    if (s->rank != 3 || heads < 1 || k->n->in_count < 3) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "needs query, key and value apart: packed forms are not taken");
    }
    enum pen_status status = side_load(k, 0, heads, 0, &a.q);
    if (status == PEN_OK) {
        status = side_load(k, 1, heads, s->dim[2], &a.k);
    }
    if (status == PEN_OK) {
        status = side_load(k, 2, heads, 2 * s->dim[2], &a.v);
    }
    if (status == PEN_OK && (k->in[1].shape.dim[0] != a.batch || k->in[2].shape.dim[0] != a.batch)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "batches differ");
    }
    if (status == PEN_OK) {
        status = past_join(k, 6, 1, a.batch, &a.k);
    }
    if (status == PEN_OK) {
        status = past_join(k, 7, 2, a.batch, &a.v);
    }
    return status == PEN_OK ? finish(k, &a, 4, 5) : status;
}
