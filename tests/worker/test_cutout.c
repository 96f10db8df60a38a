/* Squares around objects: where their pixels lie in the picture, by hand. */
#include "cutout.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "steps.h"

static void leads_to(const struct answer_map *map, double x, double y, double to_x, double to_y)
{
    double got_x = map->m[0] * x + map->m[1] * y + map->m[2], got_y = map->m[3] * x + map->m[4] * y + map->m[5];
    cr_expect(fabs(got_x - to_x) < 1e-4 && fabs(got_y - to_y) < 1e-4, "%g %g leads to %g %g, not %g %g", x, y, got_x,
              got_y, to_x, to_y);
}

static const struct picture picture = {.width = 100, .height = 80, .channels = 3};

/* A box of 20 x 10 around (30, 40), twice as large: 40 x 40. */
Test(cutout, an_upright_square_around_the_box)
{
    const struct ensemble_plan_crop crop = {.present = true, .scale = 2, .to = 1};
    const float box[4] = {20, 35, 40, 45};
    struct answer_map map = cutout_map(&crop, box, NULL, &picture, 10, 10);
    cr_expect(map.width == 100 && map.height == 80);
    leads_to(&map, 0, 0, 10, 20);
    leads_to(&map, 10, 10, 50, 60);
    leads_to(&map, 5, 5, 30, 40);
}

/* The second point lies straight below the first: the cut-out's x goes down in the picture. */
Test(cutout, points_become_level)
{
    const struct ensemble_plan_crop crop = {.present = true, .turned = true, .scale = 1, .from = 1, .to = 0};
    const float box[4] = {20, 30, 40, 50}, points[6] = {30, 48, 1, 30, 32, 1};
    struct answer_map map = cutout_map(&crop, box, points, &picture, 20, 20);
    leads_to(&map, 10, 10, 30, 40);
    leads_to(&map, 20, 10, 30, 50);
    leads_to(&map, 10, 20, 20, 40);
    leads_to(&map, 0, 0, 40, 30);
}

/* A BMP of 2 x 1 pixels. */
static uint8_t file[62];

static void file_make(void)
{
    memcpy(file, "BM", 2);
    file[10] = 54;
    file[14] = 40;
    file[18] = 2;
    file[22] = file[26] = 1;
    file[28] = 24;
    memcpy(file + 54, (const uint8_t[]){3, 2, 1, 6, 5, 4}, 6);
}

/* What a decoder's thread keeps for a slot counts until the job has gone, and is not kept beyond the limit. */
Test(cutout, a_picture_is_decoded_before_its_slot)
{
    static struct picture_steps steps;
    static struct served model = {.config = {.picture = {.steps = &steps}}, .digest = {{7}}};
    atomic_uint_fast64_t held = 0;
    file_make();
    const struct pen_tensor bytes = {
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {62}, .data = file, .bytes = 62};
    const struct pen_tensor broken = {
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {20}, .data = file, .bytes = 20};
    const struct pen_tensor number = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {15}, .data = file, .bytes = 60};
    struct uncut *uncut = uncut_new(&model, &bytes, &held, 6, 0);
    cr_assert(uncut && uncut->picture.width == 2 && uncut->picture.height == 1 && uncut->model.bytes[0] == 7);
    cr_expect(uncut->picture.pixels[0] == 1 && uncut->picture.pixels[5] == 6);
    cr_expect_eq(atomic_load(&held), 6u);
    cr_expect_null(uncut_new(&model, &bytes, &held, 11, 0), "two are beyond the limit");
    cr_expect_eq(atomic_load(&held), 6u);
    uncut_free(uncut);
    cr_expect_eq(atomic_load(&held), 0u);
    cr_expect_null(uncut_new(&model, &broken, &held, 1000, 0), "the step says what is wrong with it");
    cr_expect_null(uncut_new(&model, &number, &held, 1000, 0));
    cr_expect_eq(atomic_load(&held), 0u);
}

/* 3 x 2 pixels as they are, in the order of each layout: the places of a plane, the channels of a pixel, grey. */
Test(cutout, pixels_lie_where_the_layout_says)
{
    static uint8_t pixels[18];
    static struct picture_steps steps = {.width = 3, .height = 2, .element_bytes = 1};
    static struct served model = {.config = {.picture = {.steps = &steps}}};
    const struct picture small = {.width = 3, .height = 2, .channels = 3, .pixels = pixels};
    const struct answer_map same = {.width = 3, .height = 2, .m = {1, 0, 0, 0, 1, 0}};
    uint8_t to[18];
    for (size_t i = 0; i < 18; i++)
        pixels[i] = (uint8_t)(10 * i);
    for (size_t c = 0; c < 3; c++)
        for (size_t v = 0; v < 256; v++)
            steps.bytes[c][v] = (uint8_t)v;
    steps.channels = 3;
    cutout_sample(&small, &same, &model, to);
    cr_expect_arr_eq(to, pixels, 18);
    steps.bgr = true;
    cutout_sample(&small, &same, &model, to);
    cr_expect(to[0] == pixels[2] && to[2] == pixels[0] && to[15] == pixels[17]);
    steps.bgr = false;
    steps.nchw = true;
    cutout_sample(&small, &same, &model, to);
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 6; i++)
            cr_expect_eq(to[6 * c + i], pixels[3 * i + c], "channel %zu of pixel %zu", c, i);
    steps.channels = 1;
    cutout_sample(&small, &same, &model, to);
    for (size_t i = 0; i < 6; i++) {
        const uint8_t *p = pixels + 3 * i;
        cr_expect_eq(to[i], (uint8_t)(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 0.5), "grey pixel %zu", i);
    }
}
