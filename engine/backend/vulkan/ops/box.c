#include "backend/vulkan/ops/box.h"

void vk_dense_steps(const struct shape *s, int64_t *steps)
{
    int64_t step = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        steps[d] = step;
        step *= s->dim[d];
    }
}

bool vk_movable(enum pen_dtype dtype)
{
    unsigned bits = dtype == PEN_DTYPE_STRING ? 0 : pen_dtype_bits(dtype);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

size_t vk_element_bytes(const struct vk_build *b, enum pen_dtype dtype)
{
    if (dtype == PEN_DTYPE_F32 && vk_build_f16(b)) {
        return 2;
    }
    return vk_movable(dtype) ? pen_dtype_bits(dtype) / 8 : 0;
}

/* Drops dims of one element and joins neighbours that are one run on both sides. */
static void box_merge(struct vk_box *box)
{
    int32_t to = 0;
    for (int32_t d = 0; d < box->rank; d++) {
        if (box->dim[d] == 1) {
            continue;
        }
        int32_t last = to - 1;
        if (to > 0 && box->x_step[last] == box->x_step[d] * (int64_t)box->dim[d] &&
            box->y_step[last] == box->y_step[d] * (int64_t)box->dim[d]) {
            box->dim[last] *= box->dim[d];
        } else {
            box->dim[to++] = box->dim[d];
            last = to - 1;
        }
        box->x_step[last] = box->x_step[d];
        box->y_step[last] = box->y_step[d];
    }
    if (to == 0) {
        box->dim[0] = 1;
        box->x_step[0] = box->y_step[0] = 1;
        to = 1;
    }
    box->rank = to;
}

/* Elements of 8 bytes are two words. */
static bool box_halve(struct vk_box *box)
{
    if (box->rank == PEN_MAX_RANK) {
        return false;
    }
    for (int32_t d = 0; d < box->rank; d++) {
        box->x_step[d] *= 2;
        box->y_step[d] *= 2;
    }
    box->x_at *= 2;
    box->y_at *= 2;
    box->dim[box->rank] = 2;
    box->x_step[box->rank] = box->y_step[box->rank] = 1;
    box->rank++;
    return true;
}

void vk_box_copy(struct vk_build *b, const struct vk_box *from, uint32_t y, uint32_t x, size_t size)
{
    struct vk_box box = *from;
    box_merge(&box);
    if (size == 0 || (size == 8 && !box_halve(&box))) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "elements of this size, or too many dims");
        return;
    }
    if (size == 8) {
        box_merge(&box);
    }
    size_t count = 1;
    for (int32_t d = 0; d < box.rank; d++) {
        count *= box.dim[d];
    }
    if (count == 0) {
        return;
    }
    struct vk_work *w = vk_dispatch(b, size == 1 ? SHADER_copy8 : size == 2 ? SHADER_copy16 : SHADER_copy32);
    vk_bind(w, y, VK_WRITE);
    vk_bind(w, x, VK_READ);
    vk_spec(w, (uint32_t)box.rank);
    vk_push(w, count);
    vk_push(w, box.x_at);
    vk_push(w, box.y_at);
    for (int32_t d = 0; d < PEN_MAX_RANK; d++) {
        vk_push(w, d < box.rank ? box.dim[d] : 1);
    }
    for (int32_t d = 0; d < PEN_MAX_RANK; d++) {
        vk_push(w, d < box.rank ? (uint32_t)(int32_t)box.x_step[d] : 0);
    }
    for (int32_t d = 0; d < PEN_MAX_RANK; d++) {
        vk_push(w, d < box.rank ? (uint32_t)box.y_step[d] : 0);
    }
    vk_items(w, count);
}
