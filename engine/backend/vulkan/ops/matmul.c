#include "backend/vulkan/ops/epilogue.h"

#include <string.h>

/* A batch of products, both sides computed: the leading dims broadcast. */
void vk_matmul_batch(struct vk_build *b, const struct shape *left, const struct shape *right)
{
    struct shape lead_a = *left, lead_b = *right, batch;
    lead_a.rank -= 2;
    lead_b.rank -= 2;
    size_t m = (size_t)left->dim[lead_a.rank], k = (size_t)left->dim[lead_a.rank + 1],
           n = (size_t)right->dim[lead_b.rank + 1];
    if (!shape_broadcast(&lead_a, &lead_b, &batch) || batch.rank > 4 ||
        vk_elements(vk_out(b, 0)) != (size_t)shape_elements(&batch) * m * n) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "the batch dims do not broadcast, or are more than four");
        return;
    }
    size_t dim[4] = {1, 1, 1, 1}, a_step[4] = {0}, b_step[4] = {0}, a_at = 1, b_at = 1;
    for (int32_t i = 0; i < batch.rank; i++) { /* from the innermost */
        int32_t da = lead_a.rank - 1 - i, db = lead_b.rank - 1 - i;
        dim[3 - i] = (size_t)batch.dim[batch.rank - 1 - i];
        a_step[3 - i] = da >= 0 && lead_a.dim[da] != 1 ? a_at : 0;
        b_step[3 - i] = db >= 0 && lead_b.dim[db] != 1 ? b_at : 0;
        a_at *= da >= 0 ? (size_t)lead_a.dim[da] : 1;
        b_at *= db >= 0 ? (size_t)lead_b.dim[db] : 1;
    }
    size_t count = (size_t)shape_elements(&batch);
    const struct vk_product_shape shape = {.kind = VK_PRODUCT_BATCH, .rows = m, .outs = n, .depth = k, .groups = count};
    const struct vk_choice choice = vk_build_choose(b, &shape, NULL, false, false);
    const uint32_t tile = choice.tile;
    const bool tiled = choice.family == VK_FAMILY_TILED;
    if (b->epilogue == NULL && vk_epilogue_waits(b, false)) {
        return;
    }
    struct vk_product end = {.bias = VK_CELL_NONE, .act = vk_act_read(b->n)}; /* what follows the sums */
    vk_epilogue_apply(b, &end);
    if (choice.family == VK_FAMILY_CM || choice.family == VK_FAMILY_CM2) {
        struct vk_batch p = {.rows = m, .outs = n, .depth = k, .count = count, .end = &end};
        memcpy(p.dim, dim, sizeof dim);
        memcpy(p.x_step, a_step, sizeof a_step);
        memcpy(p.w_step, b_step, sizeof b_step);
        p.x = vk_in_cell(b, 0);
        p.w = vk_in_cell(b, 1);
        vk_product_batch(b, &p, &choice);
        return;
    }
    struct vk_work *w = vk_dispatch(b, tiled ? SHADER_matmul_tiled : SHADER_matmul);
    const uint32_t x = vk_in_cell(b, 0);
    vk_bind(w, end.y, VK_WRITE);
    vk_bind(w, x, VK_READ);
    vk_bind(w, vk_in_cell(b, 1), VK_READ);
    vk_bind(w, end.bias != VK_CELL_NONE ? end.bias : x, VK_READ);
    vk_bind(w, end.adds != VK_RESIDUAL_NONE ? end.residual : x, VK_READ);
    vk_spec_act(w, &end.act);
    vk_spec(w, tile);
    vk_spec(w, end.bias != VK_CELL_NONE);
    vk_spec(w, (uint32_t)vk_cell_wide(b, end.bias) << 1 | (uint32_t)end.adds);
    const size_t words[] = {m,         n,         k,         count,     dim[0],    dim[1],    dim[2],    dim[3],
                            a_step[0], a_step[1], a_step[2], a_step[3], b_step[0], b_step[1], b_step[2], b_step[3]};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    if (tiled) {
        vk_groups(w, (n + 63) / 64, (m + 16 * tile - 1) / (16 * tile), count);
    } else {
        vk_items(w, count * ((m + tile - 1) / tile) * n);
    }
}
