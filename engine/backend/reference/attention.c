/* Attention: y = softmax(scale * q k^T + mask) v, with caches, grouped heads and causal masks. Source: ONNX Attention (opset 23 and later). */
#include "backend/reference/attention.h"

#include <math.h>
#include <string.h>

/* past [batch, heads, p, size] in front of the new rows: [batch, heads, p + n, size]. */
static double *joined(struct kernel_call *k, const struct heads *now, int64_t batch, const double *past,
                      int64_t past_length, struct heads *ret)
{
    int64_t total = past_length + now->length;
    double *to = kernel_scratch(k, (size_t)(batch * now->heads * total * now->size) * sizeof *to);
    for (int64_t i = 0; to != NULL && i < batch * now->heads; i++) {
        int64_t b = i / now->heads, h = i % now->heads;
        double *at = to + i * total * now->size;
        if (past_length > 0) {
            memcpy(at, past + i * past_length * now->size, (size_t)(past_length * now->size) * sizeof *to);
        }
        for (int64_t t = 0; t < now->length; t++) {
            memcpy(at + (past_length + t) * now->size,
                   now->items + b * now->batch_stride + h * now->head_stride + t * now->row,
                   (size_t)now->size * sizeof *to);
        }
    }
    struct shape s = shape_of(4, (const int64_t[]){batch, now->heads, total, now->size});
    heads_of(to, &s, now->heads, ret);
    return to;
}

/* Queries, keys or values; inputs of rank 3 say their number of heads by attribute. */
static enum pen_status side_init(struct kernel_call *k, uint32_t index, enum attr_key heads_key, struct heads *ret)
{
    const struct shape *s = &k->in[index].shape;
    int64_t heads = node_int(k->n, heads_key, 0);
    double *items = NULL;
    if ((s->rank != 4 && s->rank != 3) || (s->rank == 3 && (heads < 1 || s->dim[2] % heads != 0))) {
        return kernel_fail(k, PEN_ERR_SHAPE, "input %u of rank %d with %lld heads", index, s->rank, (long long)heads);
    }
    enum pen_status status = kernel_doubles(k, index, &items);
    heads_of(items, s, heads, ret);
    return status;
}

/* Keys or values joined with their cache; declares and fills the present output when it is wanted. */
static enum pen_status cache_join(struct kernel_call *k, uint32_t past, uint32_t present, int64_t batch,
                                  struct heads *side)
{
    double *old = NULL;
    int64_t length = 0;
    if (kernel_has(k, past)) {
        const struct shape *s = &k->in[past].shape;
        if (s->rank != 4 || s->dim[0] != batch || s->dim[1] != side->heads || s->dim[3] != side->size) {
            return kernel_fail(k, PEN_ERR_SHAPE, "the cache of input %u does not fit", past);
        }
        enum pen_status status = kernel_doubles(k, past, &old);
        if (status != PEN_OK) {
            return status;
        }
        length = s->dim[2];
    }
    struct heads all;
    double *items = joined(k, side, batch, old, length, &all);
    if (items == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the cache");
    }
    *side = all;
    if (!kernel_wants(k, present)) {
        return PEN_OK;
    }
    struct shape s = shape_of(4, (const int64_t[]){batch, all.heads, all.length, all.size});
    enum pen_status status = kernel_output(k, present, k->in[present].dtype, &s);
    if (status == PEN_OK) {
        store_f64(k->out[present].data, k->out[present].dtype, 0, 1, shape_elements(&s), items);
    }
    return status;
}

/* nonpad_kv_seqlen */
static enum pen_status valid_init(struct kernel_call *k, struct attention *a)
{
    if (!kernel_has(k, 6)) {
        return PEN_OK;
    }
    int64_t *valid = kernel_scratch(k, (size_t)a->batch * sizeof *valid);
    size_t count = 0;
    enum pen_status status = valid == NULL ? PEN_ERR_NO_MEMORY : kernel_ints(k, 6, valid, (size_t)a->batch, &count);
    if (status == PEN_OK && count != (size_t)a->batch) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "%zu lengths for a batch of %lld", count, (long long)a->batch);
    }
    a->valid = valid;
    return status;
}

/* The mask must broadcast to [batch, heads, queries, keys], the keys may be more than it has. */
static enum pen_status mask_init(struct kernel_call *k, uint32_t index, struct attention *a)
{
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    const struct shape *s = &k->in[index].shape;
    const int64_t full[4] = {a->batch, a->q.heads, a->q.length, a->k.length};
    for (int32_t d = 0; d < s->rank; d++) {
        int64_t most = s->rank <= 4 ? full[4 - s->rank + d] : 0;
        bool fits = s->dim[d] == 1 || s->dim[d] == most || (d == s->rank - 1 && s->dim[d] < most);
        if (!fits) {
            char text[96];
            return kernel_fail(k, PEN_ERR_SHAPE, "mask of shape %s does not fit", shape_text(s, text, sizeof text));
        }
    }
    a->mask = &k->in[index];
    return PEN_OK;
}

/* y has the rank of q; the scores are [batch, heads, queries, keys]. */
static enum pen_status outputs_init(struct kernel_call *k, struct attention *a)
{
    bool packed = k->in[0].shape.rank == 3;
    struct shape y = packed ? shape_of(3, (const int64_t[]){a->batch, a->q.length, a->q.heads * a->v.size})
                            : shape_of(4, (const int64_t[]){a->batch, a->q.heads, a->q.length, a->v.size});
    struct shape scores = shape_of(4, (const int64_t[]){a->batch, a->q.heads, a->q.length, a->k.length});
    enum pen_status status = kernel_output(k, 0, k->in[0].dtype, &y);
    heads_of(NULL, &y, a->q.heads, &a->y_at);
    a->y = &k->out[0];
    a->scores_stage = -1;
    if (status == PEN_OK && kernel_wants(k, 3)) {
        status = kernel_output(k, 3, k->in[0].dtype, &scores);
        a->scores = &k->out[3];
        a->scores_stage = node_int(k->n, ATTR_qk_matmul_output_mode, 0);
    }
    return status;
}

/* q, k, v, mask, past key, past value, valid lengths */
enum pen_status kernel_attention(struct kernel_call *k)
{
    struct attention a = {.batch = k->in[0].shape.rank > 0 ? k->in[0].shape.dim[0] : 0,
                          .mask_false = -(double)INFINITY};
    enum pen_status status = side_init(k, 0, ATTR_q_num_heads, &a.q);
    if (status == PEN_OK) {
        status = side_init(k, 1, ATTR_kv_num_heads, &a.k);
    }
    if (status == PEN_OK) {
        status = side_init(k, 2, ATTR_kv_num_heads, &a.v);
    }
    if (status == PEN_OK && (k->in[1].shape.dim[0] != a.batch || k->in[2].shape.dim[0] != a.batch)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "batches differ");
    }
    int64_t fresh = a.k.length;
    if (status == PEN_OK) {
        status = cache_join(k, 4, 1, a.batch, &a.k);
    }
    if (status == PEN_OK) {
        status = cache_join(k, 5, 2, a.batch, &a.v);
    }
    if (status == PEN_OK) {
        status = valid_init(k, &a);
    }
    if (status == PEN_OK) {
        status = mask_init(k, 3, &a);
    }
    if (status == PEN_OK) {
        status = outputs_init(k, &a);
    }
    a.scale = (double)node_float(k->n, ATTR_scale, 0.0f);
    a.scale = node_attr(k->n, ATTR_scale) == NULL ? 1.0 / sqrt((double)a.q.size) : a.scale;
    a.softcap = (double)node_float(k->n, ATTR_softcap, 0.0f);
    a.causal = node_int(k->n, ATTR_is_causal, 0) != 0;
    a.causal_offset = a.k.length - fresh;
    return status == PEN_OK ? attention_run(k, &a) : status;
}
