#include "backend/vulkan/ops/attention_cm.h"

#include "backend/vulkan/plan.h"

#define HIGH        16u  /* rows of a subgroup: HIGH of attention_cm.glsl */
#define SIDE        16u  /* of a matrix that stands in, and the most of one */
#define PARTS_MOST  4u   /* subgroups that share keys and values */
#define DEPTH_MOST  256u /* queries stay in registers */
#define COLUMN_MOST 128u /* sums do, too: more columns are further workgroups */
#define ROWS_LEAST  8u   /* below it most of each matrix would be empty */

static uint32_t whole(size_t size, uint32_t most)
{
    const size_t up = (size + SIDE - 1) / SIDE * SIDE;
    return up > most ? most : (uint32_t)up;
}

static bool side_eights(const struct flash_side *s, size_t at, size_t size)
{
    return s->col == 1 && (s->batch | s->head | s->row | at | size) % 8 == 0;
}

static uint32_t eights_of(const struct vk_attention *a)
{
    return (side_eights(&a->q, a->q_at, a->size) ? 1u : 0u) | (side_eights(&a->k, a->k_at, a->size) ? 2u : 0u) |
           (side_eights(&a->v, a->v_at, a->value_size) ? 4u : 0u) | (side_eights(&a->y, 0, a->value_size) ? 8u : 0u);
}

/* The shared arrays of attention_cm.glsl. */
static size_t shared_bytes(const struct vk_attention_cm *c)
{
    const size_t wide = c->depth > c->columns ? c->depth : c->columns, rows = (size_t)c->parts * HIGH;
    const size_t eights = c->keys * (wide / 8 + 1) + rows * (c->keys / 4 + 1 + c->keys / 8 + 1) +
                          (c->matrices.rows == 0 ? rows * (c->depth / 8) : 0);
    return 16 * eights + sizeof(float) * (c->parts * c->subgroup + rows);
}

/* The most subgroups that rows fill, or the loads want, and that fit; then the most keys. */
static bool tile_choose(const struct vk_kernels *k, size_t rows, struct vk_attention_cm *c)
{
    const uint32_t least = c->depth > 64 ? 2 : 1;
    for (c->parts = rows > 32 ? PARTS_MOST : rows > 16 || least > 1 ? 2 : 1; c->parts > 0; c->parts /= 2) {
        for (c->keys = 64; c->keys >= 32; c->keys /= 2) {
            if (c->parts * c->subgroup <= k->invocations && shared_bytes(c) <= k->shared_bytes) {
                return true;
            }
        }
    }
    return false;
}

/* Matrices of 8 and 16 divide the tiles; so does a subgroup of any usual size divide 16 rows, or 16 rows it. */
static bool matrices_fit(const struct vk_attention_cm *c)
{
    const struct vk_matrix_size *m = &c->matrices;
    return m->rows <= SIDE && m->outs <= SIDE && m->depth <= SIDE && m->rows % 8 == 0 && m->outs % 8 == 0 &&
           m->depth % 8 == 0 &&
           (c->subgroup >= HIGH ? c->subgroup % HIGH == 0 : c->subgroup > 0 && HIGH % c->subgroup == 0);
}

/* always: lavapipe (Mesa 26.2) loses matrices that only one side of a branch loads. */
bool vk_attention_cm_choose(const struct vk_build *b, const struct vk_attention *a, struct vk_attention_cm *ret)
{
    const struct vk_kernels *k = &b->exec->plan->backend->kernels;
    const size_t rows = a->heads / a->kv_heads * a->queries;
    const bool named = k->only == VK_FAMILY_CM || k->only == VK_FAMILY_CM2,
               wanted = named || (k->only == VK_FAMILY_AUTO && k->device != VK_CLASS_SOFTWARE && rows >= ROWS_LEAST);
    if (!k->cm || !wanted || (k->ops_off & VK_OFF_ATTENTION) != 0 || (k->families_off & 1u << VK_FAMILY_CM) != 0 ||
        !vk_build_f16(b) || a->stage != VK_SCORES_NONE || a->size > DEPTH_MOST) {
        return false;
    }
    *ret = (struct vk_attention_cm){.matrices = vk_build_matrices(b),
                                    .subgroup = k->subgroup,
                                    .depth = whole(a->size, DEPTH_MOST),
                                    .columns = whole(a->value_size, COLUMN_MOST),
                                    .eights = eights_of(a),
                                    .always = k->device == VK_CLASS_SOFTWARE};
    return matrices_fit(ret) && tile_choose(k, rows, ret);
}

void vk_attention_cm_grid(const struct vk_attention *a, const struct vk_attention_cm *c, size_t ret_groups[3])
{
    const size_t rows = a->heads / a->kv_heads * a->queries, high = (size_t)c->parts * HIGH;
    ret_groups[0] = a->batch * a->kv_heads;
    ret_groups[1] = (rows + high - 1) / high;
    ret_groups[2] = (a->value_size + c->columns - 1) / c->columns;
}

void vk_attention_cm_specs(struct vk_work *w, const struct vk_attention_cm *c)
{
    const uint32_t side = c->matrices.rows != 0 ? 0 : SIDE;
    const uint32_t specs[] = {c->subgroup,
                              c->parts * c->subgroup,
                              c->matrices.rows + side,
                              c->matrices.outs + side,
                              c->matrices.depth + side,
                              c->parts,
                              c->keys,
                              c->depth,
                              c->columns,
                              c->eights,
                              c->always};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        vk_spec(w, specs[i]);
    }
}
