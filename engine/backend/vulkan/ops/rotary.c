#include "backend/vulkan/ops/rotary.h"

#include "backend/vulkan/ops/ops.h"

static uint32_t there(uint32_t cell, uint32_t other)
{
    return cell != VK_CELL_NONE ? cell : other;
}

void vk_rotary_dispatch(struct vk_build *b, const struct vk_rotary *r)
{
    const struct vk_heads *x = &r->x;
    const size_t count = x->batch * x->heads * r->rows * x->size;
    struct vk_work *w = vk_dispatch(b, SHADER_rotary);
    vk_bind(w, r->y_cell, VK_WRITE);
    vk_bind(w, r->x_cell, VK_READ);
    vk_bind(w, there(r->cosines, r->x_cell), VK_READ); /* what is not there is never read */
    vk_bind(w, there(r->sines, r->x_cell), VK_READ);
    vk_bind(w, there(r->ids, r->x_cell), VK_READ);
    vk_bind(w, there(r->past, r->x_cell), VK_READ);
    vk_bind(w, there(r->lengths, r->x_cell), VK_READ);
    vk_bind(w, vk_flag_cell(b), VK_READ); /* atomic: may run beside others that report */
    vk_spec(w, r->half > 0);
    vk_spec(w, r->interleaved);
    vk_spec(w, (uint32_t)r->place);
    vk_spec(w, r->cache);
    const size_t words[] = {count,         b->index + 1u, x->batch,     x->heads,   r->rows,     x->size,
                            r->half,       x->length,     r->past_room, r->table,   r->id_count, r->x_at,
                            x->step.batch, x->step.head,  x->step.row,  r->y.batch, r->y.head,   r->y.row};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, count);
}

/* ---- RotaryEmbedding: x, tables, positions ---- */

static bool rotary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *ids = node_in(g, n, 3);
    bool fits = vk_dtype_is(x, PEN_DTYPE_F32) && vk_dtype_is(node_in(g, n, 1), PEN_DTYPE_F32) &&
                vk_dtype_is(node_in(g, n, 2), PEN_DTYPE_F32) && (ids == NULL || ids->dtype == PEN_DTYPE_I64);
    bool rank = fits && (x->shape.rank == 4 || (x->shape.rank == 3 && node_int(n, ATTR_num_heads, 0) > 0));
    return rank || vk_refuse(ret_reason, "only f32 of 3 or 4 dims, with i64 positions");
}

/* Tables [positions, pairs], or [batch or 1, length, pairs] without positions. */
static bool tables_fit(const struct vk_build *b, struct vk_rotary *r)
{
    const struct shape *c = &vk_in(b, 1)->shape;
    const struct fact *ids = vk_in(b, 3);
    const size_t tokens = r->x.batch * r->x.length;
    int64_t dim = node_int(b->n, ATTR_rotary_embedding_dim, 0);
    dim = dim == 0 ? (int64_t)r->x.size : dim;
    r->half = dim > 0 ? (size_t)dim / 2 : 0;
    const bool shared = c->rank == 3 && c->dim[0] == 1; /* one table for the whole batch */
    r->table = ids != NULL ? (c->rank == 2 ? (size_t)c->dim[0] : 0) : shared ? r->x.length : tokens;
    r->id_count = ids != NULL ? vk_elements(ids) : 0;
    return dim >= 0 && dim <= (int64_t)r->x.size && dim % 2 == 0 && c->rank >= 2 &&
           c->dim[c->rank - 1] == (int64_t)r->half && (size_t)shape_elements(c) == r->table * r->half &&
           shape_equal(c, &vk_in(b, 2)->shape) && (ids == NULL || r->id_count == tokens);
}

static void rotary_build(struct vk_build *b)
{
    struct vk_rotary r = {.past = VK_CELL_NONE, .lengths = VK_CELL_NONE, .ids = VK_CELL_NONE};
    if (!vk_heads_of(&vk_in(b, 0)->shape, node_int(b->n, ATTR_num_heads, 0), &r.x) || !tables_fit(b, &r)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the tables of sines and cosines do not fit");
        return;
    }
    r.rows = r.x.length;
    r.y = r.x.step;
    r.interleaved = node_int(b->n, ATTR_interleaved, 0) != 0;
    r.x_cell = vk_in_cell(b, 0);
    r.y_cell = vk_out_cell(b, 0);
    r.cosines = vk_in_cell(b, 1);
    r.sines = vk_in_cell(b, 2);
    if (vk_in(b, 3) != NULL) {
        r.ids = vk_in_cell(b, 3);
        r.place = VK_PLACE_READ;
    }
    vk_rotary_dispatch(b, &r);
}

const struct vk_op vk_op_rotary = {rotary_supports, NULL, rotary_build};
