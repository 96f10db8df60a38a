#include "backend/vulkan/plan.h"

/* Which kernels run a product of bytes: by the product's shape as for floats, then those that multiply four bytes at once where the device has that. */

static bool is_off(const struct vk_kernels *k, enum vk_family family, bool dot)
{
    return (k->bytes_off & vk_bytes_bit(family, dot)) != 0;
}

/* Where the family wanted computes wrong, plain kernels, then the simple ones. */
static enum vk_family usable(const struct vk_kernels *k, enum vk_family family, bool dot8, bool *ret_dot)
{
    const enum vk_family order[] = {family, VK_FAMILY_SIMPLE};
    for (int i = 0; i < 2; i++) {
        for (int dot = dot8; dot >= 0; dot--) {
            if (!is_off(k, order[i], dot != 0)) {
                *ret_dot = dot != 0;
                return order[i];
            }
        }
    }
    *ret_dot = false;
    return VK_FAMILY_SIMPLE;
}

/* By rules and the family asked for; what the tuner measured was products of floats. Pieces of the depth and matrices have no form here. */
static struct vk_choice choose(const struct vk_build *b, const struct vk_product_shape *shape)
{
    struct vk_kernels k = b->exec->plan->backend->kernels;
    k.cm = false;
    k.families_off = k.windows_off = 0;
    k.conv = VK_CONV_AUTO;
    for (uint32_t i = 0; i < VK_CLASSES; i++) {
        k.tuned[i] = VK_FAMILY_AUTO;
    }
    b->exec->chosen_by[b->index] = (uint8_t)vk_choose_by(&k, shape);
    enum vk_family family = vk_choose(&k, shape).family;
    return vk_choice_of(&k, family == VK_FAMILY_SPLIT ? VK_FAMILY_TILED : family, shape);
}

/* Rows of a workgroup of `gemv`. */
static uint32_t few_rows(const struct vk_product_shape *shape)
{
    return shape->rows < 4 ? (uint32_t)shape->rows : shape->outs > 4 ? 4 : 1;
}

struct vk_choice vk_build_choose_codes(const struct vk_build *b, const struct vk_product_shape *shape)
{
    struct vk_choice c = choose(b, shape);
    const struct vk_kernels *k = &b->exec->plan->backend->kernels;
    if ((k->codes_off & 1u << c.family) != 0) {
        c = vk_choice_of(k, VK_FAMILY_SIMPLE, shape);
    }
    c.tile = c.family == VK_FAMILY_GEMV ? few_rows(shape) : c.tile;
    return c;
}

struct vk_choice vk_build_choose_bytes(const struct vk_build *b, const struct vk_product_shape *shape, bool *ret_dot)
{
    struct backend *backend = b->exec->plan->backend;
    enum vk_family wanted = choose(b, shape).family;
    enum vk_family family = usable(&backend->kernels, wanted, b->exec->weights->device->dot8, ret_dot);
    struct vk_choice c = vk_choice_of(&backend->kernels, family, shape);
    c.tile = family == VK_FAMILY_GEMV ? few_rows(shape) : c.tile;
    atomic_fetch_add(&backend->bytes_products[*ret_dot], 1);
    return c;
}
