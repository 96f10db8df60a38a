#include <string.h>

#include "backend/vulkan/plan.h"
#include "backend/vulkan/seen.h"

/*
 * Which kernels run a product of bytes, or one with codes of few bits: by the product's shape as for floats; of bytes then those that multiply four at once where the
 * device has that.
 */

static bool is_off(const struct vk_kernels *k, enum vk_family family, bool dot)
{
    return (k->bytes_off & vk_bytes_bit(family, dot)) != 0;
}

/* Where the family wanted computes wrong, plain kernels, then the simple ones. Matrices have one form. */
static enum vk_family usable(const struct vk_kernels *k, enum vk_family family, bool dot8, bool *ret_dot)
{
    const enum vk_family order[] = {family, VK_FAMILY_SIMPLE};
    for (int i = 0; i < 2; i++) {
        for (int dot = dot8 && order[i] != VK_FAMILY_CM; dot >= 0; dot--) {
            if (!is_off(k, order[i], dot != 0)) {
                *ret_dot = dot != 0;
                return order[i];
            }
        }
    }
    *ret_dot = false;
    return VK_FAMILY_SIMPLE;
}

void vk_kernels_of_bytes(const struct backend *b, struct vk_kernels *ret_kernels)
{
    const struct vk_matrix_size *m = &b->device->coopmat.bytes;
    struct vk_kernels k = b->kernels;
    k.cm = k.cm_bytes && !is_off(&k, VK_FAMILY_CM, false);
    k.cm2 = false;
    k.weights = VK_WEIGHTS_BYTES;
    k.subgroup = m->rows != 0 ? m->subgroup : VK_LOCAL / 2;
    k.matrix_rows = m->rows;
    k.matrix_outs = m->outs;
    k.matrix_depth = m->depth;
    k.families_off = k.windows_off = 0;
    k.conv = VK_CONV_AUTO;
    memset(k.tuned, VK_FAMILY_AUTO, sizeof k.tuned); /* what the tuner measured was products of floats */
    *ret_kernels = k;
}

/* By the rules, the family asked for or the table. `split` has no form here. */
static struct vk_choice choose(const struct vk_build *b, const struct vk_kernels *k,
                               const struct vk_product_shape *shape)
{
    b->exec->chosen_by[b->index] = (uint8_t)vk_choose_by(k, shape);
    enum vk_family family = vk_choose(k, shape).family;
    return vk_choice_of(k, family == VK_FAMILY_SPLIT ? VK_FAMILY_TILED : family, shape);
}

/* Rows of a workgroup of `gemv`. */
static uint32_t few_rows(const struct vk_product_shape *shape)
{
    return shape->rows < 4 ? (uint32_t)shape->rows : shape->outs > 4 ? 4 : 1;
}

struct vk_choice vk_build_choose_codes(const struct vk_build *b, const struct vk_product_shape *shape,
                                       const struct vk_coding *coding, bool halves)
{
    struct vk_kernels k = b->exec->plan->backend->kernels;
    k.cm = k.cm && halves && vk_build_f16(b);
    k.weights = VK_WEIGHTS_CODES;
    k.conv = VK_CONV_AUTO;
    vk_seen_add(b->exec->plan->backend, shape, NULL, coding);
    struct vk_choice c = choose(b, &k, shape);
    c.tile = c.family == VK_FAMILY_GEMV ? few_rows(shape) : c.tile;
    atomic_fetch_add(&b->exec->plan->backend->families[c.family], 1);
    return c;
}

struct vk_choice vk_build_choose_bytes(const struct vk_build *b, const struct vk_product_shape *shape, bool *ret_dot)
{
    struct backend *backend = b->exec->plan->backend;
    struct vk_kernels k;
    vk_kernels_of_bytes(backend, &k);
    enum vk_family wanted = choose(b, &k, shape).family;
    enum vk_family family = usable(&k, wanted, b->exec->weights->device->dot8, ret_dot);
    struct vk_choice c = vk_choice_of(&k, family, shape);
    c.tile = family == VK_FAMILY_GEMV ? few_rows(shape) : c.tile;
    atomic_fetch_add(family == VK_FAMILY_CM ? &backend->bytes_matrices : &backend->bytes_products[*ret_dot], 1);
    return c;
}
