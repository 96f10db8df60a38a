#include <math.h>
#include <stdio.h>

#include "backend/vulkan/cm2_tiles.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/selftest.h"
#include "backend/vulkan/verdicts.h"
#include "graph/kept.h"

/* Family `cm2`, each tile for itself: a driver stages and clamps the tiles, so one size may be right and another wrong. */

struct sample {
    struct vk_product_shape shape;
    uint32_t splits;
};

/* Tails on every side of rows that begin anywhere; a whole tile with steps that are unrolled, one more, and tails beside it; batches; the depth in pieces. */
static uint32_t samples_of(const struct vk_choice *c, struct sample samples[4])
{
    samples[0] = (struct sample){{VK_PRODUCT_MATRIX, 37, 45, 301, 1}, 1};
    samples[1] = (struct sample){{VK_PRODUCT_MATRIX, c->tile + 3, c->outs + 8, 5 * c->depth, 1}, 1};
    samples[2] = (struct sample){{VK_PRODUCT_MATRIX, 70, 72, 512, 1}, 3};
    samples[3] = (struct sample){{VK_PRODUCT_BATCH, 72, 40, 56, 2}, 1};
    return KEPT(vulkan_MatMul) ? 4 : 3;
}

/* number: 1 + a tile's, 0 = by the rules. all: at every shape, not only the first. */
static enum pen_status tile_test(struct backend *b, uint32_t number, bool all, double *worst, struct pen_error *reterr)
{
    struct sample samples[4];
    char name[24] = "cm2";
    enum pen_status status = PEN_OK;
    b->kernels.tile = number;
    if (number > 0) {
        vk_cm2_tile_text(number - 1, name, sizeof name);
        name[3] = '_';
    }
    const struct vk_product_shape first = {VK_PRODUCT_MATRIX, 37, 45, 301, 1};
    const struct vk_choice choice = vk_choice_of(&b->kernels, VK_FAMILY_CM2, &first);
    const uint32_t count = all ? samples_of(&choice, samples) : 1;
    samples[0] = (struct sample){first, 1};
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        b->kernels.splits = samples[i].splits;
        status = vk_selftest_shape(b, &samples[i].shape, name, worst, reterr);
    }
    if (status == PEN_OK && !(*worst <= vk_selftest_bound(b)) && number > 0) {
        char wrong[80];
        vk_selftest_text(*worst, vk_selftest_bound(b), wrong, sizeof wrong);
        vk_selftest_note(b, name, wrong);
    }
    return status;
}

/* Tiles that are wrong are noted and left out. *ret_right: how many are right. */
static enum pen_status tiles_test(struct backend *b, const struct vk_kernels *asked, double *worst, uint32_t *ret_right,
                                  struct pen_error *reterr)
{
    const bool all = vk_selftest_all(b);
    enum pen_status status = PEN_OK;
    *ret_right = 0;
    for (uint32_t t = all ? 1 : 0; t <= (all ? vk_cm2_tiles() : 0) && status == PEN_OK; t++) {
        double error = 0.0;
        if (t > 0 && !vk_cm2_tile_fits(asked, t - 1)) {
            continue;
        }
        status = tile_test(b, t, all, &error, reterr);
        const bool right = error <= vk_selftest_bound(b);
        *ret_right += right;
        *worst = right ? *worst : error;
        b->kernels.cm2_off |= right || t == 0 ? 0 : 1u << (t - 1);
    }
    return status;
}

enum pen_status vk_selftest_cm2(struct backend *b, struct pen_error *reterr)
{
    const struct vk_kernels asked = b->kernels;
    const bool named = asked.only == VK_FAMILY_CM2;
    double worst = 0.0;
    uint32_t right = 0;
    if (!asked.cm2 || (asked.families_off & 1u << VK_FAMILY_CM2) != 0 ||
        !(named || (asked.only == VK_FAMILY_AUTO && vk_selftest_all(b)))) {
        return PEN_OK;
    }
    b->kernels.only = VK_FAMILY_CM2;
    b->kernels.conv = VK_CONV_AUTO;
    enum pen_status status = tiles_test(b, &asked, &worst, &right, reterr);
    const uint32_t off = b->kernels.cm2_off;
    b->kernels = asked;
    b->kernels.cm2_off = off;
    if (status != PEN_OK) {
        return status;
    }
    char wrong[80];
    vk_selftest_text(worst, vk_selftest_bound(b), wrong, sizeof wrong);
    vk_selftest_note(b, "cm2", right > 0 ? NULL : wrong);
    b->kernels.families_off |= right > 0 ? 0 : 1u << VK_FAMILY_CM2;
    return right > 0 || !named ? PEN_OK : vk_selftest_refuse(b, "cm2", wrong, reterr);
}
