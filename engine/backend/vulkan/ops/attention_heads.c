#include <math.h>

#include "backend/vulkan/ops/attention.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/softmax.h"

/* Attention of ai.onnx: queries, keys, values, a mask, caches of earlier keys and values, valid lengths; y, present keys and values, scores. */
enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_K, IN_PAST_V, IN_VALID };
enum { OUT_Y, OUT_KEY, OUT_VALUE, OUT_SCORES };

static bool attention_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        const struct value *v = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
        bool fits = v == NULL || v->dtype == PEN_DTYPE_F32 || (i == IN_MASK && v->dtype == PEN_DTYPE_BOOL) ||
                    (i == IN_VALID && v->dtype == PEN_DTYPE_I64);
        bool rank = v == NULL || i >= IN_MASK || v->shape.rank == 3 || v->shape.rank == 4;
        if (!fits || !rank) {
            return vk_refuse(ret_reason,
                             fits ? "operands of 3 or 4 dimensions only" : "only f32, with a bool or f32 mask");
        }
    }
    return true;
}

/* Keys or values: [past, then new rows] of each head, joined where there is a cache or somebody wants the result. */
struct side {
    struct vk_heads all;
    uint32_t cell;
};

static bool cache_fits(const struct fact *past, const struct vk_heads *fresh, size_t *ret_rows)
{
    const struct shape *s = &past->shape;
    *ret_rows = (size_t)s->dim[2];
    return s->rank == 4 && (size_t)s->dim[0] == fresh->batch && (size_t)s->dim[1] == fresh->heads &&
           (size_t)s->dim[3] == fresh->size;
}

static bool side_build(struct vk_build *b, uint32_t index, struct side *ret)
{
    const struct fact *past = vk_in(b, IN_PAST_K + index), *out = vk_out(b, OUT_KEY + index);
    struct vk_heads fresh, old;
    size_t rows = 0;
    if (!vk_heads_of(&vk_in(b, IN_K + index)->shape, node_int(b->n, ATTR_kv_num_heads, 0), &fresh) ||
        (past != NULL && !cache_fits(past, &fresh, &rows))) {
        return false;
    }
    *ret = (struct side){fresh, vk_in_cell(b, IN_K + index)};
    if (past == NULL && out == NULL) {
        return true;
    }
    const struct shape joined = shape_of(4, (int64_t[]){(int64_t)fresh.batch, (int64_t)fresh.heads,
                                                        (int64_t)(rows + fresh.length), (int64_t)fresh.size});
    if (out != NULL && !shape_equal(&out->shape, &joined)) {
        return false;
    }
    uint32_t to = out != NULL ? vk_out_cell(b, OUT_KEY + index)
                              : vk_temp_cell(b, fresh.batch * fresh.heads * (rows + fresh.length) * fresh.size);
    if (rows > 0 && vk_heads_of(&past->shape, 0, &old)) {
        vk_heads_copy(b, &old, vk_in_cell(b, IN_PAST_K + index), 0, to, 0, rows + fresh.length);
    }
    vk_heads_copy(b, &fresh, ret->cell, 0, to, rows * fresh.size, rows + fresh.length);
    ret->cell = to;
    return vk_heads_of(&joined, 0, &ret->all);
}

/* The stage of the scores that output 3 is; shares are made of the biased ones by a pass of their own. */
static void scores_set(struct vk_build *b, struct vk_attention *a)
{
    const int64_t mode = node_int(b->n, ATTR_qk_matmul_output_mode, 0);
    if (vk_out(b, OUT_SCORES) == NULL) {
        return;
    }
    a->stage = mode == 0 ? VK_SCORES_RAW : mode == 1 ? VK_SCORES_CAPPED : VK_SCORES_BIASED;
    a->scores_cell = mode == 3 ? vk_temp_cell(b, vk_elements(vk_out(b, OUT_SCORES))) : vk_out_cell(b, OUT_SCORES);
}

static void attention_set(struct vk_build *b, struct vk_attention *a, int64_t past)
{
    a->scale = node_attr(b->n, ATTR_scale) != NULL ? node_float(b->n, ATTR_scale, 0.0f) : 1.0f / sqrtf((float)a->size);
    a->softcap = node_float(b->n, ATTR_softcap, 0.0f);
    a->causal = node_int(b->n, ATTR_is_causal, 0) != 0;
    a->offset = past;
    if (vk_in(b, IN_MASK) != NULL) {
        bool boolean = vk_in(b, IN_MASK)->dtype == PEN_DTYPE_BOOL;
        vk_attention_term(b, a, IN_MASK, boolean ? FLASH_ADD_UNLESS : FLASH_ADD, -INFINITY);
    }
    if (vk_in(b, IN_VALID) != NULL) {
        a->lengths = VK_LENGTHS_VALID;
        a->lengths_cell = vk_in_cell(b, IN_VALID);
        a->length_words = 2;
    }
    scores_set(b, a);
}

static bool sizes_fit(struct vk_build *b, const struct vk_heads *q, const struct side *k, const struct side *v,
                      struct vk_heads *ret_y)
{
    const struct fact *valid = vk_in(b, IN_VALID), *scores = vk_out(b, OUT_SCORES);
    return vk_heads_of(&vk_out(b, OUT_Y)->shape, (int64_t)q->heads, ret_y) && ret_y->batch == q->batch &&
           ret_y->heads == q->heads && ret_y->length == q->length && ret_y->size == v->all.size &&
           k->all.batch == q->batch && v->all.batch == q->batch && k->all.heads > 0 && q->heads % k->all.heads == 0 &&
           v->all.heads == k->all.heads && k->all.size == q->size && v->all.length == k->all.length &&
           (valid == NULL || vk_elements(valid) == q->batch) &&
           (scores == NULL || vk_elements(scores) == q->batch * q->heads * q->length * k->all.length);
}

static void attention_build(struct vk_build *b)
{
    struct vk_attention a = vk_attention_none();
    struct vk_heads q, y;
    struct side k, v;
    if (!vk_heads_of(&vk_in(b, IN_Q)->shape, node_int(b->n, ATTR_q_num_heads, 0), &q) || !side_build(b, 0, &k) ||
        !side_build(b, 1, &v) || !sizes_fit(b, &q, &k, &v, &y)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "queries, keys, values, mask and caches do not fit each other");
        return;
    }
    a.batch = q.batch;
    a.heads = q.heads;
    a.kv_heads = k.all.heads;
    a.queries = q.length;
    a.keys = k.all.length;
    a.size = q.size;
    a.value_size = v.all.size;
    a.q = q.step;
    a.k = k.all.step;
    a.v = v.all.step;
    a.y = y.step;
    a.q_cell = vk_in_cell(b, IN_Q);
    a.k_cell = k.cell;
    a.v_cell = v.cell;
    a.y_cell = vk_out_cell(b, OUT_Y);
    attention_set(b, &a, (int64_t)(k.all.length - (size_t)vk_in(b, IN_K)->shape.dim[vk_in(b, IN_K)->shape.rank - 2]));
    vk_attention_dispatch(b, &a);
    if (vk_out(b, OUT_SCORES) != NULL && node_int(b->n, ATTR_qk_matmul_output_mode, 0) == 3) {
        vk_softmax_shares(b, vk_out_cell(b, OUT_SCORES), a.scores_cell, &vk_out(b, OUT_SCORES)->shape);
    }
}

const struct vk_op vk_op_attention = {attention_supports, NULL, attention_build};
