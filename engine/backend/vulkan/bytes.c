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

/* The family has a form that multiplies four at once, or one that does not, which computes right here. Matrices have one form. */
static bool has_form(const struct vk_kernels *k, enum vk_family family, bool dot, bool dot8)
{
    return (!dot || (dot8 && family != VK_FAMILY_CM)) && !is_off(k, family, dot);
}

/* In the form wanted, or else the other one; where the family computes wrong, the simple kernels. */
static enum vk_family usable(const struct vk_kernels *k, enum vk_family family, bool plain, bool dot8, bool *ret_dot)
{
    const enum vk_family order[] = {family, VK_FAMILY_SIMPLE};
    for (int i = 0; i < 4; i++) {
        const bool dot = (i % 2 == 0) != plain;
        if (has_form(k, order[i / 2], dot, dot8)) {
            *ret_dot = dot;
            return order[i / 2];
        }
    }
    *ret_dot = false;
    return VK_FAMILY_SIMPLE;
}

/* `simple` stays: it is what is left when nothing else runs. */
static uint32_t families_off(const struct vk_kernels *k, bool dot8)
{
    uint32_t off = 0;
    for (uint32_t f = VK_FAMILY_TILED; f <= VK_FAMILY_CM; f++) {
        const enum vk_family kernels = f == VK_FAMILY_SPLIT ? VK_FAMILY_TILED : (enum vk_family)f;
        const bool any = has_form(k, kernels, false, dot8) || has_form(k, kernels, true, dot8);
        off |= any ? 0 : 1u << f;
    }
    return off;
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
    k.families_off = families_off(&k, b->device->dot8);
    k.windows_off = 0;
    k.conv = VK_CONV_AUTO;
    *ret_kernels = k;
}

uint32_t vk_bytes_forms(const struct backend *b, enum vk_family family)
{
    const bool both =
        has_form(&b->kernels, family, false, true) && has_form(&b->kernels, family, true, b->device->dot8);
    return family == VK_FAMILY_CM ? vk_cm_tiles() : both ? 1 : 0;
}

/* By the rules, the family asked for or the table. `split` has no form here. */
static enum vk_family wanted(const struct vk_kernels *k, const struct vk_product_shape *shape)
{
    enum vk_family family = vk_choose(k, shape).family;
    return family == VK_FAMILY_SPLIT ? VK_FAMILY_TILED : family;
}

static struct vk_choice choose(const struct vk_build *b, const struct vk_kernels *k,
                               const struct vk_product_shape *shape)
{
    b->exec->chosen_by[b->index] = (uint8_t)vk_choose_by(k, shape);
    return vk_choice_of(k, wanted(k, shape), shape);
}

enum vk_family vk_bytes_by_rule(const struct backend *b, const struct vk_product_shape *shape)
{
    struct vk_kernels k;
    bool dot;
    vk_kernels_of_bytes(b, &k);
    memset(k.tuned, VK_FAMILY_AUTO, sizeof k.tuned);
    k.only = VK_FAMILY_AUTO;
    return usable(&k, wanted(&k, shape), false, b->device->dot8, &dot);
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

struct vk_choice vk_build_choose_bytes(const struct vk_build *b, const struct vk_product_shape *shape,
                                       const struct window *window, bool *ret_dot)
{
    struct backend *backend = b->exec->plan->backend;
    struct vk_kernels k;
    vk_kernels_of_bytes(backend, &k);
    vk_seen_add(backend, shape, window, NULL);
    enum vk_family family = choose(b, &k, shape).family;
    family = usable(&k, family, vk_plain_asked(&k, family, shape), b->exec->weights->device->dot8, ret_dot);
    struct vk_choice c = vk_choice_of(&k, family, shape);
    c.tile = family == VK_FAMILY_GEMV ? few_rows(shape) : c.tile;
    atomic_fetch_add(&backend->families[family], 1);
    atomic_fetch_add(family == VK_FAMILY_CM ? &backend->bytes_matrices : &backend->bytes_products[*ret_dot], 1);
    return c;
}
