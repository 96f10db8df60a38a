/*
 * com.microsoft Attention and MultiHeadAttention where the importer could not take them apart, because the file does not say enough of their shapes: the same
 * kernel, other ways to give queries, masks and caches. Source: ONNX Runtime's contrib operators.
 */
#include <math.h>

#include "backend/vulkan/ops/attention.h"
#include "backend/vulkan/ops/chain.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"

/* ---- what both have ---- */

static bool is_whole(const struct value *v)
{
    return v == NULL || v->dtype == PEN_DTYPE_I32 || v->dtype == PEN_DTYPE_I64;
}

/* Inputs but the mask are f32 of these ranks; -1: it must not be there. */
static bool inputs_fit(const struct graph *g, const struct node *n, const int8_t (*ranks)[2], uint32_t count,
                       uint32_t mask)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v == NULL) {
            continue;
        }
        if (i >= count || v->shape.rank < ranks[i][0] || v->shape.rank > ranks[i][1] ||
            (i == mask ? !is_whole(v) : v->dtype != PEN_DTYPE_F32)) {
            return false;
        }
    }
    return true;
}

/* Lengths [batch], flags [batch, keys] or [batch, queries, keys]: 0 hides. */
static void mask_term(struct vk_build *b, struct vk_attention *a, uint32_t index)
{
    const struct fact *f = vk_in(b, index);
    const float fill = node_float(b->n, ATTR_mask_filter_value, -10000.0f);
    if (f == NULL) {
        return;
    }
    const int32_t rank = f->shape.rank;
    const size_t rows = rank == 3 ? a->queries : 1, keys = rank == 1 ? 1 : a->keys;
    struct vk_term t = {.kind = rank == 1 ? VK_TERM_BEYOND : FLASH_ADD_UNLESS,
                        .of = f->dtype == PEN_DTYPE_I64 ? VK_TERM_I64 : VK_TERM_I32,
                        .cell = vk_in_cell(b, index),
                        .at = {.keys = a->keys, .fill = fill}};
    if (vk_elements(f) != a->batch * rows * keys) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "a mask of this shape");
        return;
    }
    t.at.step[0] = rows * keys;
    t.at.step[2] = rank == 3 ? keys : 0;
    t.at.step[3] = rank == 1 ? 0 : 1;
    a->terms[a->term_count++] = t;
}

struct sides {
    struct vk_heads q, k, v; /* k, v: with their caches */
    uint32_t cell[3];
    size_t at[3];
};

static void sides_dispatch(struct vk_build *b, const struct sides *s, uint32_t mask, uint32_t added)
{
    struct vk_attention a = vk_attention_none();
    const struct shape y =
        shape_of(3, (int64_t[]){(int64_t)s->q.batch, (int64_t)s->q.length, (int64_t)(s->q.heads * s->v.size)});
    struct vk_heads to;
    if (!shape_equal(&vk_out(b, 0)->shape, &y) || !vk_heads_of(&y, (int64_t)s->q.heads, &to) ||
        s->k.size != s->q.size || s->v.length != s->k.length || s->k.batch != s->q.batch || s->v.batch != s->q.batch) {
        vk_build_fail(b, PEN_ERR_SHAPE, "queries, keys, values and result do not fit each other");
        return;
    }
    a.batch = s->q.batch;
    a.heads = a.kv_heads = s->q.heads;
    a.queries = s->q.length;
    a.keys = s->k.length;
    a.size = s->q.size;
    a.value_size = s->v.size;
    a.q = s->q.step;
    a.k = s->k.step;
    a.v = s->v.step;
    a.y = to.step;
    a.q_at = s->at[0];
    a.k_at = s->at[1];
    a.v_at = s->at[2];
    a.q_cell = s->cell[0];
    a.k_cell = s->cell[1];
    a.v_cell = s->cell[2];
    a.y_cell = vk_out_cell(b, 0);
    a.scale = node_float(b->n, ATTR_scale, 0.0f);
    a.scale = a.scale == 0.0f ? 1.0f / sqrtf((float)a.size) : a.scale;
    a.causal = node_int(b->n, ATTR_unidirectional, 0) != 0;
    a.offset = (int64_t)a.keys - (int64_t)a.queries;
    mask_term(b, &a, mask);
    if (vk_in(b, added) != NULL) {
        vk_attention_term(b, &a, added, FLASH_ADD, 0.0f);
    }
    vk_attention_dispatch(b, &a);
}

/* Rows [batch, heads, rows, size] from element `at` of a cell on. */
struct rows_at {
    uint32_t cell;
    size_t at, rows;
};

/* The rows of a cache, then the fresh ones: in y from y_at on. */
static void cache_join(struct vk_build *b, struct vk_heads *side, uint32_t *cell, size_t *at,
                       const struct rows_at *past, uint32_t y, size_t y_at)
{
    const size_t rows = past->rows + side->length;
    const struct shape old =
        shape_of(4, (int64_t[]){(int64_t)side->batch, (int64_t)side->heads, (int64_t)past->rows, (int64_t)side->size});
    const struct shape all =
        shape_of(4, (int64_t[]){(int64_t)side->batch, (int64_t)side->heads, (int64_t)rows, (int64_t)side->size});
    struct vk_heads from;
    if (past->rows > 0 && vk_heads_of(&old, 0, &from)) {
        vk_heads_copy(b, &from, past->cell, past->at, y, y_at, rows);
    }
    vk_heads_copy(b, side, *cell, *at, y, y_at + past->rows * side->size, rows);
    *cell = y;
    *at = y_at;
    vk_heads_of(&all, 0, side);
}

/* ---- queries, keys and values in one product ---- */

static bool ms_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    static const int8_t ranks[][2] = {{3, 3}, {2, 2}, {1, 1}, {1, 3}, {5, 5}, {0, 4}};
    if (!inputs_fit(g, n, ranks, sizeof ranks / sizeof ranks[0], 3)) {
        return vk_refuse(ret_reason, "only f32 with a mask of whole numbers of 1 to 3 dimensions");
    }
    return node_int(n, ATTR_do_rotary, 0) == 0 || vk_refuse(ret_reason, "rotary positions");
}

static struct filter projection_of(const struct shape *w)
{
    const size_t rows = (size_t)w->dim[0], cols = (size_t)w->dim[1];
    return (struct filter){
        .groups = 1, .out = cols, .in = rows, .kernel_h = 1, .kernel_w = 1, .out_step = 1, .in_step = cols};
}

static enum pen_status ms_pack(struct vk_pack *p)
{
    const struct value *w = node_in(p->g, p->n, 1), *bias = node_in(p->g, p->n, 2);
    if (w->data == NULL) {
        return PEN_OK;
    }
    const struct filter f = projection_of(&w->shape);
    float *packed = vk_pack_floats(p, 0, vk_filter_packed(&f));
    if (packed == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    vk_filter_pack(&f, w->data, 1.0f, packed);
    vk_pack_wide_if_outside(p, 0);
    vk_pack_bf16(p, 0);
    if (bias != NULL && bias->data != NULL && shape_elements(&bias->shape) == (int64_t)f.out) {
        packed = vk_pack_floats(p, 1, f.out + 4);
        for (size_t i = 0; packed != NULL && i < f.out; i++) {
            packed[i] = ((const float *)bias->data)[i];
        }
        vk_pack_wide_if_outside(p, 1);
        return packed != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    return PEN_OK;
}

/* x w + bias: [batch, length, q + k + v]. */
static uint32_t project(struct vk_build *b, const struct filter *f, size_t rows)
{
    uint32_t y = vk_temp_cell(b, rows * f->out);
    struct vk_product p = {.w = vk_matrix_window(rows, f->in), .groups = 1, .group_in = f->in, .group_out = f->out};
    p.weights = vk_packed_cell(b, 0);
    if (p.weights == VK_CELL_NONE) {
        p.weights = vk_filter_repack(b, f, vk_in_cell(b, 1), 1.0f);
    }
    p.bias = vk_in(b, 2) != NULL ? vk_packed_cell(b, 1) : VK_CELL_NONE;
    const bool add = vk_in(b, 2) != NULL && p.bias == VK_CELL_NONE;
    p.x = vk_in_cell(b, 0);
    p.y = add ? vk_temp_cell(b, rows * f->out) : y;
    vk_product(b, &p);
    if (add) {
        const struct shape all = shape_of(2, (int64_t[]){(int64_t)rows, (int64_t)f->out});
        struct vk_chain c;
        vk_chain_init(&c, &all);
        vk_chain_input(&c, p.y, &all, EW_REAL);
        uint32_t bias = vk_chain_input(&c, vk_in_cell(b, 2), &vk_in(b, 2)->shape, EW_REAL);
        vk_chain_step(&c, EW_ADD, bias, 0.0f, 0.0f);
        vk_chain_dispatch(b, &c, y, EW_REAL);
    }
    return y;
}

/* The columns of queries, keys and values: equal thirds, or by qkv_hidden_sizes. */
static bool columns_read(const struct vk_build *b, size_t all, size_t heads, size_t width[3])
{
    uint32_t count = 0;
    const int64_t *sizes = node_ints(b->n, ATTR_qkv_hidden_sizes, &count);
    size_t sum = 0;
    for (uint32_t i = 0; i < 3; i++) {
        width[i] = sizes == NULL || count != 3 ? all / 3 : sizes[i] > 0 ? (size_t)sizes[i] : 0;
        if (width[i] == 0 || width[i] % heads != 0 || width[i] > all) {
            return false;
        }
        sum += width[i];
    }
    return sum <= all && width[0] == width[1] && (sizes == NULL || count == 3);
}

static bool past_fits(const struct vk_build *b, const struct sides *s, size_t *ret_rows)
{
    const struct fact *past = vk_in(b, 4), *present = vk_out(b, 1);
    const int64_t batch = (int64_t)s->q.batch, heads = (int64_t)s->q.heads, size = (int64_t)s->k.size;
    *ret_rows = past != NULL ? (size_t)past->shape.dim[3] : 0;
    const struct shape old = shape_of(5, (int64_t[]){2, batch, heads, (int64_t)*ret_rows, size});
    const struct shape all = shape_of(5, (int64_t[]){2, batch, heads, (int64_t)(*ret_rows + s->k.length), size});
    return (past == NULL || shape_equal(&past->shape, &old)) &&
           (present == NULL || shape_equal(&present->shape, &all)) && s->k.size == s->v.size;
}

static void ms_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *w = &vk_in(b, 1)->shape;
    const size_t heads = (size_t)node_int(b->n, ATTR_num_heads, 0);
    const struct filter f = projection_of(w);
    size_t width[3], past_rows = 0;
    if (heads < 1 || f.in != (size_t)x->dim[2] || !columns_read(b, f.out, heads, width) ||
        (vk_in(b, 2) != NULL && vk_elements(vk_in(b, 2)) != f.out)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "weights do not fit the input and the heads");
        return;
    }
    struct sides s = {0};
    struct vk_heads *const side[3] = {&s.q, &s.k, &s.v};
    s.cell[0] = s.cell[1] = s.cell[2] = project(b, &f, (size_t)(x->dim[0] * x->dim[1]));
    s.at[1] = width[0];
    s.at[2] = width[0] + width[1];
    for (uint32_t i = 0; i < 3; i++) {
        const size_t length = (size_t)x->dim[1], size = width[i] / heads;
        *side[i] = (struct vk_heads){(size_t)x->dim[0], heads, length, size, {length * f.out, size, f.out, 1}};
    }
    const bool joined = vk_in(b, 4) != NULL || vk_out(b, 1) != NULL;
    if (joined && !past_fits(b, &s, &past_rows)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the cache does not fit");
        return;
    }
    const size_t row = s.q.batch * heads * s.k.size, half = row * (past_rows + s.k.length);
    uint32_t to = !joined ? VK_CELL_NONE : vk_out(b, 1) != NULL ? vk_out_cell(b, 1) : vk_temp_cell(b, 2 * half);
    uint32_t past = vk_in(b, 4) != NULL ? vk_in_cell(b, 4) : VK_CELL_NONE;
    for (uint32_t i = 0; joined && i < 2; i++) {
        const struct rows_at old = {past, i * row * past_rows, past_rows};
        cache_join(b, side[i + 1], &s.cell[i + 1], &s.at[i + 1], &old, to, i * half);
    }
    sides_dispatch(b, &s, 3, 5);
}

const struct vk_op vk_op_attention_ms = {ms_supports, ms_pack, ms_build};

/* ---- queries, keys and values apart ---- */

/* query, key, value, bias, key padding mask, attention bias, past key, past value */
static bool multi_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    static const int8_t ranks[][2] = {{3, 3}, {3, 4}, {3, 4}, {1, 1}, {1, 3}, {0, 4}, {4, 4}, {4, 4}};
    if (node_in(g, n, 1) == NULL || node_in(g, n, 2) == NULL || node_out(g, n, 3) != NULL) {
        return vk_refuse(ret_reason, "packed queries, keys and values, or scores as an output");
    }
    return inputs_fit(g, n, ranks, sizeof ranks / sizeof ranks[0], 4) ||
           vk_refuse(ret_reason, "only f32 with a mask of whole numbers of 1 to 3 dimensions, and no shared caches");
}

/* Its part of the bias is added where it has 3 dimensions. */
static uint32_t side_biased(struct vk_build *b, uint32_t index, size_t first)
{
    const struct shape *x = &vk_in(b, index)->shape;
    uint32_t cell = vk_in_cell(b, index);
    if (vk_in(b, 3) == NULL || x->rank != 3) {
        return cell;
    }
    const size_t width = (size_t)x->dim[2];
    uint32_t part = vk_temp_cell(b, width), y = vk_temp_cell(b, vk_elements(vk_in(b, index)));
    const struct vk_heads columns = {1, 1, 1, width, {0, 0, 0, 1}};
    vk_heads_copy(b, &columns, vk_in_cell(b, 3), first, part, 0, 1);
    const struct shape row = shape_of(1, (int64_t[]){(int64_t)width});
    struct vk_chain c;
    vk_chain_init(&c, x);
    vk_chain_input(&c, cell, x, EW_REAL);
    uint32_t bias = vk_chain_input(&c, part, &row, EW_REAL);
    vk_chain_step(&c, EW_ADD, bias, 0.0f, 0.0f);
    vk_chain_dispatch(b, &c, y, EW_REAL);
    return y;
}

static bool multi_past(struct vk_build *b, uint32_t index, struct vk_heads *side, uint32_t *cell, size_t *at)
{
    const struct fact *past = vk_in(b, 6 + index), *present = vk_out(b, 1 + index);
    const size_t rows = past != NULL ? (size_t)past->shape.dim[2] : 0;
    const int64_t batch = (int64_t)side->batch, heads = (int64_t)side->heads, size = (int64_t)side->size;
    const struct shape old = shape_of(4, (int64_t[]){batch, heads, (int64_t)rows, size});
    const struct shape all = shape_of(4, (int64_t[]){batch, heads, (int64_t)(rows + side->length), size});
    if ((past != NULL && !shape_equal(&past->shape, &old)) ||
        (present != NULL && !shape_equal(&present->shape, &all))) {
        return false;
    }
    if (past != NULL || present != NULL) {
        uint32_t to = present != NULL ? vk_out_cell(b, 1 + index) : vk_temp_cell(b, (size_t)shape_elements(&all));
        const struct rows_at cache = {past != NULL ? vk_in_cell(b, 6 + index) : VK_CELL_NONE, 0, rows};
        cache_join(b, side, cell, at, &cache, to, 0);
    }
    return true;
}

static void multi_build(struct vk_build *b)
{
    const int64_t heads = node_int(b->n, ATTR_num_heads, 0);
    const size_t width = (size_t)vk_in(b, 0)->shape.dim[2];
    struct sides s = {0};
    struct vk_heads *const side[3] = {&s.q, &s.k, &s.v};
    const struct fact *bias = vk_in(b, 3);
    bool fits = true;
    for (uint32_t i = 0; i < 3; i++) {
        fits = fits && vk_heads_of(&vk_in(b, i)->shape, heads, side[i]) && side[i]->heads == (size_t)heads;
    }
    fits =
        fits && (bias == NULL || vk_in(b, 2)->shape.rank == 4 || vk_elements(bias) >= 2 * width + s.v.heads * s.v.size);
    if (!fits) {
        vk_build_fail(b, PEN_ERR_SHAPE, "queries, keys, values and their bias do not fit each other");
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        s.cell[i] = side_biased(b, i, i * width);
    }
    for (uint32_t i = 0; i < 2; i++) {
        fits = fits && multi_past(b, i, side[i + 1], &s.cell[i + 1], &s.at[i + 1]);
    }
    if (!fits) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the cache does not fit");
        return;
    }
    sides_dispatch(b, &s, 4, 5);
}

const struct vk_op vk_op_attention_multi = {multi_supports, NULL, multi_build};
