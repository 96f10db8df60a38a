#include "backend/vulkan/cm2_tiles.h"

#include <stdio.h>

/*
 * The largest first, as each reads least for what it computes; sides of 64 for what is narrow, the smallest for tests of drivers that compile slowly. invocations: wanted; a device
 * may list others.
 */
static const struct cm2_tile {
    uint32_t rows, outs, depth, invocations;
} tiles[] = {
    {128, 256, 64, 256}, {256, 128, 64, 256}, {128, 128, 64, 256}, {128, 64, 64, 256},
    {64, 128, 64, 256},  {64, 64, 64, 128},   {16, 32, 8, 128},
};
#define TILES    (sizeof tiles / sizeof tiles[0])
#define BY_RULE  6u                      /* the rules take the first ones alone */
#define SMALLEST ((uint32_t)(TILES - 1)) /* what fits a device that has the matrices at all, most likely */
_Static_assert(TILES < 15, "a tile's number fits an entry of the table");

uint32_t vk_cm2_tiles(void)
{
    return TILES;
}

static bool divides(const struct vk_granule *g, const struct cm2_tile *t)
{
    return g->rows > 0 && t->rows % g->rows == 0 && t->outs % g->outs == 0 && t->depth % g->depth == 0;
}

/* The invocations of the tile's workgroup: those it wants if they can, else others; 0 = none can. */
static uint32_t invocations_of(const struct vk_kernels *k, const struct cm2_tile *t)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < VK_GRANULES; i++) {
        const struct vk_granule *g = &k->cm2_granules[i];
        if (divides(g, t) && g->invocations <= k->invocations && found != t->invocations) {
            found = g->invocations;
        }
    }
    return found;
}

bool vk_cm2_tile_fits(const struct vk_kernels *k, uint32_t number)
{
    return number < TILES && (k->cm2_off & 1u << number) == 0 && tiles[number].rows <= k->cm2_side_most &&
           tiles[number].outs <= k->cm2_side_most && invocations_of(k, &tiles[number]) > 0;
}

static bool tile_there(const struct vk_kernels *k)
{
    uint32_t number = 0;
    while (number < TILES && !vk_cm2_tile_fits(k, number)) {
        number++;
    }
    return number < TILES;
}

bool vk_cm2_fits(const struct vk_kernels *k, const struct vk_product_shape *s)
{
    const bool eights = s->rows * s->depth % 8 == 0 && s->depth * s->outs % 8 == 0 && s->rows * s->outs % 8 == 0;
    return k->cm2 && (s->kind == VK_PRODUCT_MATRIX ? s->groups == 1 : s->kind == VK_PRODUCT_BATCH && eights) &&
           s->groups <= 65535 && tile_there(k);
}

static size_t tiles_of(const struct cm2_tile *t, const struct vk_product_shape *s)
{
    return (s->rows + t->rows - 1) / t->rows * ((s->outs + t->outs - 1) / t->outs) * s->groups;
}

/* No side of it is empty by half, and the device gets enough of them. */
static bool suits(const struct vk_kernels *k, uint32_t number, const struct vk_product_shape *s, uint32_t busy)
{
    const struct cm2_tile *t = &tiles[number];
    return vk_cm2_tile_fits(k, number) && s->rows > t->rows / 2 && s->outs > t->outs / 2 && tiles_of(t, s) >= busy;
}

static uint32_t by_rule(const struct vk_kernels *k, const struct vk_product_shape *s, uint32_t busy)
{
    uint32_t number = k->device == VK_CLASS_SOFTWARE ? BY_RULE : 0;
    while (number < BY_RULE && !suits(k, number, s, busy)) {
        number++;
    }
    if (number < BY_RULE) {
        return number;
    }
    number = k->device == VK_CLASS_SOFTWARE ? SMALLEST : BY_RULE - 1;
    for (uint32_t i = TILES; i > 0 && !vk_cm2_tile_fits(k, number); i--) {
        number = i - 1;
    }
    return number;
}

#define SPLITS_MOST  16u
#define SPLITS_DEPTH 256u /* least depth of a piece */

/* Pieces of the depth where the tiles leave half of the device idle. */
static uint32_t splits_of(const struct vk_kernels *k, const struct cm2_tile *t, const struct vk_product_shape *s,
                          uint32_t busy)
{
    const size_t count = tiles_of(t, s), most = s->depth / SPLITS_DEPTH;
    size_t wanted = (busy + count - 1) / count;
    if (k->device == VK_CLASS_SOFTWARE || count * 2 > busy || most < 2) {
        return 1;
    }
    wanted = wanted > most ? most : wanted;
    return wanted > SPLITS_MOST ? SPLITS_MOST : (uint32_t)wanted;
}

void vk_cm2_choose(const struct vk_kernels *k, const struct vk_product_shape *s, uint32_t asked, uint32_t busy,
                   struct vk_choice *c)
{
    const bool named = asked > 0 && vk_cm2_tile_fits(k, asked - 1);
    const struct cm2_tile *t = &tiles[named ? asked - 1 : by_rule(k, s, busy)];
    c->tile = t->rows;
    c->outs = t->outs;
    c->depth = t->depth;
    c->invocations = invocations_of(k, t);
    c->splits = s->kind == VK_PRODUCT_BATCH ? 1 : k->splits > 0 ? k->splits : splits_of(k, t, s, busy);
}

void vk_cm2_tile_text(uint32_t number, char *text, size_t bytes)
{
    const struct cm2_tile *t = &tiles[number < TILES ? number : SMALLEST];
    snprintf(text, bytes, "cm2 %ux%ux%u", t->rows, t->outs, t->depth);
}
