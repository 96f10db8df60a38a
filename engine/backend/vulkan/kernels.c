#include "backend/vulkan/kernels.h"

#include <stdio.h>
#include <string.h>

#include "backend/vulkan/cm2_tiles.h"

#define ANY SIZE_MAX

static const char *const family_names[] = {"auto", "simple", "tiled", "gemv", "split", "cm", "cm2"};
_Static_assert(sizeof family_names / sizeof family_names[0] == VK_FAMILY_COUNT, "each family has a name");

const char *vk_family_name(enum vk_family family)
{
    return family < VK_FAMILY_COUNT ? family_names[family] : "?";
}

bool vk_conv_read(const char *name, enum vk_conv *ret_conv)
{
    static const char *const names[VK_CONV_COUNT] = {"auto", "direct", "gemm", "winograd", "cm"};
    for (int i = 0; i < VK_CONV_COUNT; i++) {
        if (strcmp(names[i], name != NULL ? name : "auto") == 0) {
            *ret_conv = (enum vk_conv)i;
            return true;
        }
    }
    return false;
}

bool vk_family_read(const char *name, enum vk_family *ret_family)
{
    for (uint32_t i = 0; i < VK_FAMILY_COUNT; i++) {
        if (strcmp(name != NULL ? name : "auto", family_names[i]) == 0) {
            *ret_family = (enum vk_family)i;
            return true;
        }
    }
    return false;
}

/* ---- classes ---- */

/* The largest size of each band but the last. */
static const size_t row_tops[VK_ROW_BANDS - 1] = {1, 8, 64, 512};
static const size_t out_tops[VK_OUT_BANDS - 1] = {4, 32, 128, 512};
static const size_t depth_tops[VK_DEPTH_BANDS - 1] = {31, 255, 2047};
static const char *const kind_names[] = {"matrix", "window", "batch", "codes", "bytes", "bytes window"};
_Static_assert(sizeof kind_names / sizeof kind_names[0] == VK_PRODUCT_KINDS, "each kind has a name");

bool vk_kind_bytes(enum vk_product_kind kind)
{
    return kind == VK_PRODUCT_BYTES || kind == VK_PRODUCT_BYTE_WINDOWS;
}

static uint32_t band_of(size_t size, const size_t *tops, uint32_t bands)
{
    uint32_t band = 0;
    while (band + 1 < bands && size > tops[band]) {
        band++;
    }
    return band;
}

uint32_t vk_class_of(const struct vk_product_shape *shape)
{
    uint32_t at = (uint32_t)shape->kind;
    at = at * VK_ROW_BANDS + band_of(shape->rows, row_tops, VK_ROW_BANDS);
    at = at * VK_OUT_BANDS + band_of(shape->outs, out_tops, VK_OUT_BANDS);
    return at * VK_DEPTH_BANDS + band_of(shape->depth, depth_tops, VK_DEPTH_BANDS);
}

enum vk_product_kind vk_class_kind(uint32_t class_index)
{
    return (enum vk_product_kind)(class_index / (VK_DEPTH_BANDS * VK_OUT_BANDS * VK_ROW_BANDS) % VK_PRODUCT_KINDS);
}

static void band_text(const char *name, uint32_t band, const size_t *tops, uint32_t bands, char *text, size_t bytes)
{
    size_t first = band == 0 ? 1 : tops[band - 1] + 1, length = strlen(text);
    if (band + 1 == bands) {
        snprintf(text + length, bytes - length, " %s %zu-", name, first);
    } else if (first == tops[band]) {
        snprintf(text + length, bytes - length, " %s %zu", name, first);
    } else {
        snprintf(text + length, bytes - length, " %s %zu-%zu", name, first, tops[band]);
    }
}

void vk_class_text(uint32_t class_index, char *text, size_t bytes)
{
    uint32_t depth = class_index % VK_DEPTH_BANDS, out = class_index / VK_DEPTH_BANDS % VK_OUT_BANDS,
             row = class_index / (VK_DEPTH_BANDS * VK_OUT_BANDS) % VK_ROW_BANDS;
    snprintf(text, bytes, "%s", kind_names[vk_class_kind(class_index)]);
    band_text("rows", row, row_tops, VK_ROW_BANDS, text, bytes);
    band_text("outs", out, out_tops, VK_OUT_BANDS, text, bytes);
    band_text("depth", depth, depth_tops, VK_DEPTH_BANDS, text, bytes);
}

/* ---- devices ---- */

#define CM_BIT(number) (1u << (number))

/*
 * Workgroups of 256 invocations that keep a device of the class busy: two on each of its usual number of compute units. Vulkan does not tell that number; the tuner
 * corrects what this guess gets wrong.
 */
static const struct {
    const char *name;
    uint32_t vendor_id;
    uint32_t workgroups;
    uint32_t tiles;   /* of family `cm` that the rules may choose: bits by number */
    uint32_t swizzle; /* rows of tiles in a band */
} classes[] = {
    [VK_CLASS_SOFTWARE] = {"software", 0, 1, CM_BIT(4) | CM_BIT(8), 2},
    [VK_CLASS_NVIDIA] = {"nvidia", 0x10DE, 128, CM_BIT(1) | CM_BIT(4) | CM_BIT(8) | CM_BIT(9), 8},
    [VK_CLASS_AMD] = {"amd", 0x1002, 96, CM_BIT(4) | CM_BIT(8) | CM_BIT(9), 8},
    [VK_CLASS_INTEL] = {"intel", 0x8086, 48, CM_BIT(5) | CM_BIT(8) | CM_BIT(9), 4},
    [VK_CLASS_OTHER] = {"other", 0, 32, CM_BIT(4) | CM_BIT(8), 0},
};
_Static_assert(sizeof classes / sizeof classes[0] == VK_CLASS_OTHER + 1, "each class of devices has a row");

enum vk_device_class vk_device_class_of(uint32_t vendor_id, bool software)
{
    if (software) {
        return VK_CLASS_SOFTWARE;
    }
    for (uint32_t i = VK_CLASS_NVIDIA; i < VK_CLASS_OTHER; i++) {
        if (classes[i].vendor_id == vendor_id) {
            return (enum vk_device_class)i;
        }
    }
    return VK_CLASS_OTHER;
}

const char *vk_device_class_name(enum vk_device_class class_of)
{
    return class_of <= VK_CLASS_OTHER ? classes[class_of].name : "?";
}

/* ---- rules ---- */

/* Tiles of 64 x 64 of one result: what `tiled` starts as workgroups. */
static size_t tiles_of(const struct vk_product_shape *s)
{
    return (s->rows + 63) / 64 * ((s->outs + 63) / 64) * s->groups;
}

#define SPLITS_MAX   16
#define SPLITS_DEPTH 128 /* least depth of a piece: below it adding the pieces costs more than they save */

static uint32_t splits_of(const struct vk_kernels *k, const struct vk_product_shape *s)
{
    size_t wanted = (classes[k->device].workgroups + tiles_of(s) - 1) / tiles_of(s), most = s->depth / SPLITS_DEPTH;
    wanted = wanted > most ? most : wanted;
    return wanted < 2 ? 2 : wanted > SPLITS_MAX ? SPLITS_MAX : (uint32_t)wanted;
}

/* For hardware devices, in order; the first whose sizes fit. `idle`: only where tiles alone leave the device idle. */
static const struct rule {
    enum vk_family family;
    size_t rows_least, rows_most, outs_least, outs_most, depth_least;
    bool idle;
} rules[] = {
    {VK_FAMILY_GEMV, 1, 4, 5, ANY, 64, false},      {VK_FAMILY_GEMV, 1, ANY, 1, 4, 256, false},
    {VK_FAMILY_CM2, 64, ANY, 64, ANY, 64, false},   {VK_FAMILY_CM, 16, ANY, 16, ANY, 16, false},
    {VK_FAMILY_SPLIT, 8, ANY, 32, ANY, 2048, true}, {VK_FAMILY_TILED, 64, ANY, 32, ANY, 16, false},
    {VK_FAMILY_TILED, 16, ANY, 32, ANY, 32, false}, {VK_FAMILY_SIMPLE, 0, ANY, 0, ANY, 0, false},
};

/* A matrix of bytes is twice as deep. */
static size_t depth_least(const struct vk_kernels *k, const struct rule *r)
{
    return r->family == VK_FAMILY_CM && k->weights == VK_WEIGHTS_BYTES ? 2 * r->depth_least : r->depth_least;
}

static bool rule_holds(const struct vk_kernels *k, const struct rule *r, const struct vk_product_shape *s)
{
    return s->rows >= r->rows_least && s->rows <= r->rows_most && s->outs >= r->outs_least && s->outs <= r->outs_most &&
           s->depth >= depth_least(k, r) && (!r->idle || tiles_of(s) * 2 <= classes[k->device].workgroups) &&
           vk_family_fits(k, r->family, s);
}

static enum vk_family rule_family(const struct vk_kernels *k, const struct vk_product_shape *s)
{
    size_t i = 0;
    if (k->device == VK_CLASS_SOFTWARE) { /* no shared memory to win from; waiting at barriers costs */
        return VK_FAMILY_SIMPLE;
    }
    while (!rule_holds(k, &rules[i], s)) {
        i++; /* the last holds always */
    }
    return rules[i].family;
}

bool vk_family_fits(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape)
{
    bool groups = shape->groups <= 65535; /* they are the third dimension of a grid */
    const uint32_t off = shape->kind == VK_PRODUCT_CODES
                             ? k->codes_off
                             : k->families_off | (shape->kind == VK_PRODUCT_WINDOW ? k->windows_off : 0);
    if ((off & 1u << family) != 0) {
        return false;
    }
    switch (family) {
    case VK_FAMILY_SIMPLE:
        return true;
    case VK_FAMILY_TILED:
        return groups;
    case VK_FAMILY_GEMV:
        return groups && shape->kind != VK_PRODUCT_BATCH && shape->rows <= 4 * 65535;
    case VK_FAMILY_SPLIT:
        return groups && shape->kind != VK_PRODUCT_BATCH && shape->kind != VK_PRODUCT_CODES &&
               shape->groups * SPLITS_MAX <= 65535 && shape->depth >= 2 * SPLITS_DEPTH;
    case VK_FAMILY_CM:
        return groups && k->cm;
    case VK_FAMILY_CM2:
        return vk_cm2_fits(k, shape);
    default:
        return false;
    }
}

/* Tiles of family `cm`, the largest first: those read least, but the device must have enough of them to be busy. */
static const struct cm_tile {
    uint32_t rows, outs, down, width, depth;
} cm_tiles[] = {
    {256, 256, 4, 64, 32}, {256, 128, 4, 64, 32}, {128, 256, 2, 64, 32}, {128, 128, 2, 64, 64},
    {128, 128, 2, 64, 32}, {128, 64, 2, 32, 32},  {64, 128, 2, 64, 32},  {64, 64, 2, 32, 64},
    {64, 64, 2, 32, 32},   {32, 64, 1, 32, 32},   {256, 256, 4, 64, 16},
};
#define CM_TILES (sizeof cm_tiles / sizeof cm_tiles[0])
#define CM_LAST  8 /* fits every device that has the matrices */
_Static_assert(CM_TILES < 15, "a tile's number fits an entry of the table");

/* Of one stage, as in ops/conv_cm.glsl: eights of f16, or sixteens of bytes, one more in each row. Bytes and codes lie by output there. */
static uint32_t cm_stage_bytes(const struct vk_kernels *k, const struct cm_tile *t)
{
    const uint32_t row = t->depth / 8 + 1;
    return 16 * (t->rows * row + (k->weights == VK_WEIGHTS_FLOATS ? t->depth * (t->outs / 8 + 1) : t->outs * row));
}

/* A step of bytes is as many bytes deep as one of f16. */
static uint32_t cm_depth(const struct vk_kernels *k, const struct cm_tile *t)
{
    return k->weights == VK_WEIGHTS_BYTES ? 2 * t->depth : t->depth;
}

static uint32_t cm_subgroups(const struct cm_tile *t)
{
    return t->down * (t->outs / t->width);
}

/* What leaves through shared memory at a time: sums of each subgroup, as high as a matrix and 16 wide or wider, one four more in each row. */
static uint32_t cm_sums_bytes(const struct vk_kernels *k, const struct cm_tile *t)
{
    const uint32_t rows = k->matrix_rows > 0 ? k->matrix_rows : 16, wide = k->matrix_outs > 16 ? k->matrix_outs : 16;
    return cm_subgroups(t) * rows * (wide / 4 + 1) * 16;
}

/* With so many stages; of bytes with a sum of each row. */
static uint32_t cm_shared_bytes(const struct vk_kernels *k, const struct cm_tile *t, uint32_t stages)
{
    const uint32_t all = stages * cm_stage_bytes(k, t), sums = cm_sums_bytes(k, t);
    return (all > sums ? all : sums) + (k->weights == VK_WEIGHTS_BYTES ? 4 * t->rows : 0);
}

uint32_t vk_cm_tiles(void)
{
    return CM_TILES;
}

uint32_t vk_tiles_of(enum vk_family family)
{
    return family == VK_FAMILY_CM ? CM_TILES : family == VK_FAMILY_CM2 ? vk_cm2_tiles() : 0;
}

bool vk_tile_fits(const struct vk_kernels *k, enum vk_family family, uint32_t number)
{
    return family == VK_FAMILY_CM2 ? vk_cm2_tile_fits(k, number) : vk_cm_tile_fits(k, number);
}

bool vk_cm_tile_fits(const struct vk_kernels *k, uint32_t number)
{
    const struct cm_tile *t = &cm_tiles[number < CM_TILES ? number : CM_LAST];
    return number == CM_LAST || (number < CM_TILES && cm_subgroups(t) * k->subgroup <= k->invocations &&
                                 cm_shared_bytes(k, t, 1) <= k->shared_bytes &&
                                 cm_depth(k, t) % (k->matrix_depth > 0 ? k->matrix_depth : 16) == 0);
}

/* The rules may choose it. */
static bool cm_tile_ruled(const struct vk_kernels *k, uint32_t number)
{
    return number < CM_TILES && (classes[k->device].tiles & CM_BIT(number)) != 0 && vk_cm_tile_fits(k, number);
}

bool vk_cm_tile_tried(const struct vk_kernels *k, uint32_t number)
{
    return cm_tile_ruled(k, number) && (k->device != VK_CLASS_SOFTWARE || number == CM_LAST);
}

static size_t cm_tiles_of(const struct cm_tile *t, const struct vk_product_shape *s)
{
    return (s->rows + t->rows - 1) / t->rows * ((s->outs + t->outs - 1) / t->outs) * s->groups;
}

static bool cm_tile_suits(const struct vk_kernels *k, uint32_t number, const struct vk_product_shape *s)
{
    const struct cm_tile *t = &cm_tiles[number];
    return cm_tile_ruled(k, number) && (t->rows <= 64 || s->rows > t->rows / 2) &&
           (t->outs == 64 || s->outs > t->outs / 2) && cm_tiles_of(t, s) >= 2 * (size_t)classes[k->device].workgroups;
}

/* For a few rows half of the smallest tile would be empty. */
static uint32_t cm_by_rule(const struct vk_kernels *k, const struct vk_product_shape *s)
{
    uint32_t number = 0;
    if (s->rows <= 32 && cm_tile_ruled(k, 9)) {
        return 9;
    }
    while (number < CM_LAST && !cm_tile_suits(k, number, s)) {
        number++;
    }
    return number;
}

uint32_t vk_pieces_of(const struct vk_kernels *k, size_t workgroups, size_t most)
{
    const size_t busy = classes[k->device].workgroups;
    size_t wanted = (busy + workgroups - 1) / workgroups;
    if (k->splits > 0) {
        return k->splits;
    }
    if (k->device == VK_CLASS_SOFTWARE || workgroups * 2 > busy || most < 2) {
        return 1;
    }
    wanted = wanted > most ? most : wanted;
    return wanted > SPLITS_MAX ? SPLITS_MAX : (uint32_t)wanted;
}

/* Pieces of the depth where the tiles leave half of the device idle. Of bytes they are twice as deep: as many steps. */
static uint32_t cm_splits(const struct vk_kernels *k, const struct cm_tile *t, const struct vk_product_shape *s)
{
    const size_t least = (k->weights == VK_WEIGHTS_BYTES ? 4 : 2) * SPLITS_DEPTH;
    if (s->kind == VK_PRODUCT_BATCH || (k->splits == 0 && s->groups * SPLITS_MAX > 65535)) {
        return 1;
    }
    return vk_pieces_of(k, cm_tiles_of(t, s), s->depth / least);
}

/* 1 + the number of the tile that was asked for, or that the table has; 0 = neither. */
static uint32_t tile_asked(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *s)
{
    const uint8_t tuned = k->tuned[vk_class_of(s)];
    return k->tile > 0 ? k->tile : vk_tuned_family(tuned) == family ? tuned >> 4 : 0;
}

bool vk_plain_asked(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape)
{
    return vk_tiles_of(family) == 0 && tile_asked(k, family, shape) > 0;
}

static void cm_tile_choose(const struct vk_kernels *k, const struct vk_product_shape *s, struct vk_choice *c)
{
    const uint32_t asked = tile_asked(k, VK_FAMILY_CM, s);
    uint32_t number = asked > 0 && vk_cm_tile_fits(k, asked - 1) ? asked - 1 : cm_by_rule(k, s);
    const struct cm_tile *t = &cm_tiles[number];
    c->tile = t->rows;
    c->outs = t->outs;
    c->width = t->width;
    c->down = t->down;
    c->depth = cm_depth(k, t);
    c->stages = cm_shared_bytes(k, t, 2) <= k->shared_bytes ? 2 : 1;
    c->swizzle = classes[k->device].swizzle;
    c->splits = cm_splits(k, t, s);
}

/* ---- entries of the table ---- */

uint8_t vk_tuned_of(enum vk_family family, uint32_t tile)
{
    return (uint8_t)((uint32_t)family | tile << 4);
}

enum vk_family vk_tuned_family(uint8_t tuned)
{
    return (enum vk_family)(tuned & 15u);
}

/* Families with kernels of bytes that are plain. */
static bool has_plain(enum vk_product_kind kind, enum vk_family family)
{
    return vk_kind_bytes(kind) && family != VK_FAMILY_AUTO && vk_tiles_of(family) == 0;
}

bool vk_tuned_valid(enum vk_product_kind kind, uint8_t tuned)
{
    const enum vk_family family = vk_tuned_family(tuned);
    const uint32_t tile = tuned >> 4;
    return family < VK_FAMILY_COUNT && tile <= (has_plain(kind, family) ? 1 : vk_tiles_of(family));
}

void vk_tuned_text(enum vk_product_kind kind, uint8_t tuned, char *text, size_t bytes)
{
    const enum vk_family family = vk_tuned_family(tuned);
    const uint32_t number = vk_tuned_valid(kind, tuned) ? tuned >> 4 : 0;
    if (number == 0 || has_plain(kind, family)) {
        snprintf(text, bytes, "%s%s", vk_family_name(family), number > 0 ? " plain" : "");
        return;
    }
    if (family == VK_FAMILY_CM2) {
        vk_cm2_tile_text(number - 1, text, bytes);
        return;
    }
    const struct cm_tile *t = &cm_tiles[number - 1];
    snprintf(text, bytes, "cm %ux%ux%u", t->rows, t->outs, vk_kind_bytes(kind) ? 2 * t->depth : t->depth);
}

struct vk_choice vk_choice_of(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *s)
{
    struct vk_choice c = {.family = family, .tile = s->rows >= 4 ? 4 : 1, .splits = 1};
    if (family == VK_FAMILY_TILED || family == VK_FAMILY_SPLIT) {
        bool batch = s->kind == VK_PRODUCT_BATCH;
        c.tile = s->rows >= (batch ? 64 : 512) ? 4 : s->rows >= (batch ? 32 : 64) ? 2 : 1;
    }
    if (family == VK_FAMILY_SPLIT) {
        c.splits = splits_of(k, s);
    }
    if (family == VK_FAMILY_CM) {
        cm_tile_choose(k, s, &c);
    }
    if (family == VK_FAMILY_CM2) {
        c.swizzle = classes[k->device].swizzle;
        vk_cm2_choose(k, s, tile_asked(k, family, s), classes[k->device].workgroups, &c);
    }
    return c;
}

enum vk_chosen_by vk_choose_by(const struct vk_kernels *k, const struct vk_product_shape *shape)
{
    enum vk_family tuned = vk_tuned_family(k->tuned[vk_class_of(shape)]);
    bool table = tuned != VK_FAMILY_AUTO && vk_family_fits(k, tuned, shape);
    bool named = k->only != VK_FAMILY_AUTO || k->conv != VK_CONV_AUTO;
    return named ? VK_BY_NAME : table ? VK_BY_TABLE : VK_BY_RULE;
}

static enum vk_family fitting(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape)
{
    return vk_family_fits(k, family, shape) ? family : VK_FAMILY_SIMPLE;
}

/* gemm: the family that the rules take if it is one of tiles, else tiles. winograd: those that it cannot do, by the rules. */
static enum vk_family conv_family(const struct vk_kernels *k, enum vk_family by_rule,
                                  const struct vk_product_shape *shape)
{
    bool tiles = by_rule == VK_FAMILY_TILED || by_rule == VK_FAMILY_SPLIT || by_rule == VK_FAMILY_GEMV;
    switch (k->conv) {
    case VK_CONV_DIRECT:
        return VK_FAMILY_SIMPLE;
    case VK_CONV_WINOGRAD:
        return by_rule;
    case VK_CONV_CM:
        return fitting(k, VK_FAMILY_CM, shape);
    default:
        return tiles ? by_rule : fitting(k, VK_FAMILY_TILED, shape);
    }
}

struct vk_choice vk_choose(const struct vk_kernels *k, const struct vk_product_shape *shape)
{
    enum vk_family tuned = vk_tuned_family(k->tuned[vk_class_of(shape)]), family = rule_family(k, shape);
    if (tuned != VK_FAMILY_AUTO && vk_family_fits(k, tuned, shape)) {
        family = tuned;
    }
    if (k->only != VK_FAMILY_AUTO) {
        family = fitting(k, k->only, shape);
    }
    if (k->conv != VK_CONV_AUTO) {
        family = conv_family(k, rule_family(k, shape), shape);
    }
    return vk_choice_of(k, family, shape);
}
