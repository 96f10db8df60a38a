/*
 * com.microsoft GroupQueryAttention: causal attention over a cache, several query heads to each head of keys, rotary positions applied here. The new rows are turned
 * and joined to the cache first; attention.comp does the rest. Source: ONNX Runtime's contrib operators.
 */
#include <math.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/rotary.h"

enum { IN_Q, IN_K, IN_V, IN_PAST_K, IN_PAST_V, IN_LAST, IN_TOTAL, IN_COS, IN_SIN, IN_POSITIONS, IN_BIAS, IN_SINKS };

struct group {
    struct vk_heads q, fresh; /* fresh: new keys or values */
    size_t past_room, room, half, table, ids;
    size_t at[3]; /* of queries, keys, values in their cells */
    uint32_t cell[3];
    uint32_t lengths;
    bool packed;
};

static bool is_length(const struct value *v)
{
    return vk_dtype_is(v, PEN_DTYPE_I32) || vk_dtype_is(v, PEN_DTYPE_I64);
}

static bool group_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        bool length = i == IN_LAST || i == IN_TOTAL;
        bool fits = length ? is_length(v) : vk_dtype_is(v, i == IN_POSITIONS ? PEN_DTYPE_I64 : PEN_DTYPE_F32);
        if (v != NULL && !fits) {
            return vk_refuse(ret_reason, "only f32, with lengths of i32 or i64 and positions of i64");
        }
    }
    return (node_in(g, n, IN_LAST) != NULL && node_in(g, n, IN_TOTAL) != NULL && node_out(g, n, 1) != NULL) ||
           vk_refuse(ret_reason, "lengths are missing, or nobody asks for the caches");
}

static bool caches_fit(const struct vk_build *b, struct group *g)
{
    const struct fact *past[2] = {vk_in(b, IN_PAST_K), vk_in(b, IN_PAST_V)};
    const int64_t batch = (int64_t)g->q.batch, heads = (int64_t)g->fresh.heads, size = (int64_t)g->q.size;
    g->past_room = past[0] != NULL && past[0]->shape.rank == 4 ? (size_t)past[0]->shape.dim[2] : 0;
    g->room = vk_out(b, 1)->shape.rank == 4 ? (size_t)vk_out(b, 1)->shape.dim[2] : 0;
    const struct shape old = shape_of(4, (int64_t[]){batch, heads, (int64_t)g->past_room, size});
    const struct shape all = shape_of(4, (int64_t[]){batch, heads, (int64_t)g->room, size});
    bool fits = (past[0] == NULL) == (past[1] == NULL) && g->room > 0;
    for (uint32_t i = 0; fits && i < 2; i++) {
        fits = (past[i] == NULL || shape_equal(&past[i]->shape, &old)) &&
               (vk_out(b, 1 + i) == NULL || shape_equal(&vk_out(b, 1 + i)->shape, &all));
    }
    return fits && vk_elements(vk_in(b, IN_LAST)) == g->q.batch && vk_elements(vk_in(b, IN_TOTAL)) == 1;
}

static bool sizes_read(struct vk_build *b, struct group *g)
{
    const struct shape *x = &vk_in(b, IN_Q)->shape;
    const int64_t heads = node_int(b->n, ATTR_num_heads, 0), kv = node_int(b->n, ATTR_kv_num_heads, 0);
    g->packed = vk_in(b, IN_K) == NULL;
    const int64_t all = g->packed ? heads + 2 * kv : heads;
    if (x->rank != 3 || heads < 1 || kv < 1 || heads % kv != 0 || x->dim[2] % all != 0) {
        return false;
    }
    const size_t batch = (size_t)x->dim[0], length = (size_t)x->dim[1], size = (size_t)(x->dim[2] / all);
    const size_t row = (size_t)x->dim[2], fresh = g->packed ? row : (size_t)kv * size;
    g->q = (struct vk_heads){batch, (size_t)heads, length, size, {length * row, size, row, 1}};
    g->fresh = (struct vk_heads){batch, (size_t)kv, length, size, {length * fresh, size, fresh, 1}};
    const struct shape side = shape_of(3, (int64_t[]){x->dim[0], x->dim[1], kv * (int64_t)size});
    const struct shape y = shape_of(3, (int64_t[]){x->dim[0], x->dim[1], heads * (int64_t)size});
    for (uint32_t i = 0; i < 3; i++) {
        g->cell[i] = vk_in_cell(b, g->packed ? IN_Q : i);
    }
    g->at[1] = g->packed ? (size_t)heads * size : 0;
    g->at[2] = g->packed ? (size_t)(heads + kv) * size : 0;
    return (g->packed || (shape_equal(&vk_in(b, IN_K)->shape, &side) && vk_in(b, IN_V) != NULL &&
                          shape_equal(&vk_in(b, IN_V)->shape, &side))) &&
           shape_equal(&vk_out(b, 0)->shape, &y) && caches_fit(b, g);
}

static bool tables_read(const struct vk_build *b, struct group *g)
{
    const struct fact *c = vk_in(b, IN_COS), *s = vk_in(b, IN_SIN), *ids = vk_in(b, IN_POSITIONS);
    if (node_int(b->n, ATTR_do_rotary, 0) == 0) {
        return true;
    }
    if (c == NULL || s == NULL || c->shape.rank != 2 || !shape_equal(&c->shape, &s->shape) ||
        2 * (size_t)c->shape.dim[1] > g->q.size) {
        return false;
    }
    g->table = (size_t)c->shape.dim[0];
    g->half = (size_t)c->shape.dim[1];
    g->ids = ids != NULL ? vk_elements(ids) : 0;
    return true;
}

static void lengths_make(struct vk_build *b, struct group *g)
{
    g->lengths = vk_temp_f32(b, g->q.batch + 1);
    struct vk_work *w = vk_dispatch(b, SHADER_attention_past);
    vk_bind(w, g->lengths, VK_WRITE);
    vk_bind(w, vk_in_cell(b, IN_LAST), VK_READ);
    vk_bind(w, vk_in_cell(b, IN_TOTAL), VK_READ);
    vk_bind(w, vk_flag_cell(b), VK_READ); /* atomic: may run beside others that report */
    vk_spec(w, vk_in(b, IN_LAST)->dtype == PEN_DTYPE_I64 ? 2 : 1);
    const size_t words[] = {g->q.batch, b->index + 1u, g->q.length, g->past_room, g->room};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, g->q.batch);
}

static struct vk_rotary rotary_of(struct vk_build *b, const struct group *g, bool turned)
{
    struct vk_rotary r = {.lengths = g->lengths,
                          .interleaved = node_int(b->n, ATTR_rotary_interleaved, 0) != 0,
                          .half = turned ? g->half : 0,
                          .place = vk_in(b, IN_POSITIONS) != NULL ? VK_PLACE_PROMPT : VK_PLACE_BEHIND,
                          .table = g->table,
                          .id_count = g->ids,
                          .cosines = VK_CELL_NONE,
                          .sines = VK_CELL_NONE,
                          .ids = VK_CELL_NONE,
                          .past = VK_CELL_NONE,
                          .past_room = g->past_room};
    if (r.half > 0) {
        r.cosines = vk_in_cell(b, IN_COS);
        r.sines = vk_in_cell(b, IN_SIN);
        r.ids = vk_in(b, IN_POSITIONS) != NULL ? vk_in_cell(b, IN_POSITIONS) : VK_CELL_NONE;
    }
    return r;
}

static void queries_turn(struct vk_build *b, struct group *g)
{
    if (g->half == 0) {
        return;
    }
    struct vk_rotary r = rotary_of(b, g, true);
    const size_t row = g->q.heads * g->q.size;
    r.x = g->q;
    r.x_cell = g->cell[0];
    r.rows = g->q.length;
    r.y = (struct flash_side){g->q.length * row, g->q.size, row, 1};
    r.y_cell = vk_temp_cell(b, g->q.batch * g->q.length * row);
    vk_rotary_dispatch(b, &r);
    g->q.step = r.y;
    g->cell[0] = r.y_cell;
}

/* side: 1 keys, 2 values. */
static void cache_make(struct vk_build *b, struct group *g, uint32_t side)
{
    struct vk_rotary r = rotary_of(b, g, side == 1);
    const size_t head = g->room * g->q.size;
    r.x = g->fresh;
    r.x_at = g->at[side];
    r.x_cell = g->cell[side];
    r.cache = true;
    r.rows = g->room;
    r.past = vk_in(b, IN_PAST_K + side - 1) != NULL ? vk_in_cell(b, IN_PAST_K + side - 1) : VK_CELL_NONE;
    r.y = (struct flash_side){g->fresh.heads * head, head, g->q.size, 1};
    r.y_cell = vk_out(b, side) != NULL ? vk_out_cell(b, side) : vk_temp_cell(b, g->q.batch * g->fresh.heads * head);
    vk_rotary_dispatch(b, &r);
    g->cell[side] = r.y_cell;
}

static void scores_set(struct vk_build *b, const struct group *g, struct vk_attention *a)
{
    const struct fact *bias = vk_in(b, IN_BIAS), *sinks = vk_in(b, IN_SINKS);
    a->scale = node_float(b->n, ATTR_scale, 0.0f);
    a->scale = a->scale == 0.0f ? 1.0f / sqrtf((float)g->q.size) : a->scale;
    a->softcap = node_float(b->n, ATTR_softcap, 0.0f);
    a->causal = true;
    a->lengths = VK_LENGTHS_PAST;
    a->lengths_cell = g->lengths;
    a->window = node_int(b->n, ATTR_local_window_size, -1);
    a->window = a->window > 0 ? a->window : 0;
    a->smooth = node_int(b->n, ATTR_smooth_softmax, 0) > 0 || sinks != NULL;
    a->sinks_cell = sinks != NULL ? vk_in_cell(b, IN_SINKS) : VK_CELL_NONE;
    if (bias != NULL) {
        vk_attention_term(b, a, IN_BIAS, FLASH_ADD, 0.0f);
    }
}

static void group_build(struct vk_build *b)
{
    struct group g = {0};
    struct vk_attention a = vk_attention_none();
    const struct fact *sinks = vk_in(b, IN_SINKS);
    if (!sizes_read(b, &g) || !tables_read(b, &g) || (sinks != NULL && vk_elements(sinks) != g.q.heads)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "queries, caches, tables and bias do not fit each other");
        return;
    }
    const size_t head = g.room * g.q.size, row = g.q.heads * g.q.size;
    lengths_make(b, &g);
    queries_turn(b, &g);
    cache_make(b, &g, 1);
    cache_make(b, &g, 2);
    a.batch = g.q.batch;
    a.heads = g.q.heads;
    a.kv_heads = g.fresh.heads;
    a.queries = g.q.length;
    a.keys = g.room;
    a.size = a.value_size = g.q.size;
    a.q = g.q.step;
    a.k = a.v = (struct flash_side){g.fresh.heads * head, head, g.q.size, 1};
    a.y = (struct flash_side){g.q.length * row, g.q.size, row, 1};
    a.q_cell = g.cell[0];
    a.k_cell = g.cell[1];
    a.v_cell = g.cell[2];
    a.y_cell = vk_out_cell(b, 0);
    scores_set(b, &g, &a);
    vk_attention_dispatch(b, &a);
}

const struct vk_op vk_op_attention_group = {group_supports, NULL, group_build};
