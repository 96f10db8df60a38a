/* Sizes and channels: numbers that can be said by hand. */
#include <criterion/criterion.h>
#include <string.h>

#include "picture.h"

static struct picture picture_of(uint32_t width, uint32_t height, uint32_t channels, uint8_t *pixels)
{
    return (struct picture){width, height, channels, pixels};
}

Test(resize, same_size_changes_nothing)
{
    uint8_t pixels[5 * 4];
    for (unsigned i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 12);
    }
    struct picture in = picture_of(5, 4, 1, pixels), out;
    for (int filter = 0; filter < 2; filter++) {
        cr_assert_eq(picture_resize(&in, 5, 4, (enum picture_filter)filter, PICTURE_STRETCH, &out, NULL), PEN_OK);
        cr_assert_eq(memcmp(out.pixels, pixels, sizeof pixels), 0);
        picture_fini(&out);
    }
}

Test(resize, halving_averages_and_doubling_interpolates_between_centres)
{
    uint8_t four[4] = {0, 100, 200, 40}, two[2] = {0, 100};
    struct picture in = picture_of(4, 1, 1, four), out;
    cr_assert_eq(picture_resize(&in, 2, 1, PICTURE_BILINEAR, PICTURE_STRETCH, &out, NULL), PEN_OK);
    /* triangle of radius 2 around 1.0: weights .75 .75 .25 of pixels 0, 1, 2 */
    cr_assert_eq(out.pixels[0], (uint8_t)((0.75 * 0 + 0.75 * 100 + 0.25 * 200) / 1.75 + 0.5));
    picture_fini(&out);
    in = picture_of(2, 1, 1, two);
    cr_assert_eq(picture_resize(&in, 4, 1, PICTURE_BILINEAR, PICTURE_STRETCH, &out, NULL), PEN_OK);
    const uint8_t want[4] = {0, 25, 75, 100};
    cr_assert_eq(memcmp(out.pixels, want, 4), 0);
    picture_fini(&out);
    cr_assert_eq(picture_resize(&in, 4, 1, PICTURE_NEAREST, PICTURE_STRETCH, &out, NULL), PEN_OK);
    const uint8_t near[4] = {0, 0, 100, 100};
    cr_assert_eq(memcmp(out.pixels, near, 4), 0);
    picture_fini(&out);
}

Test(resize, area_undoes_an_enlargement_and_takes_means_of_parts)
{
    uint8_t pixels[4 * 4 * 9], six[6] = {0, 90, 30, 60, 100, 200};
    for (unsigned y = 0; y < 12; y++) {
        for (unsigned x = 0; x < 12; x++) {
            pixels[y * 12 + x] = (uint8_t)(y / 3 * 60 + x / 3 * 7);
        }
    }
    struct picture in = picture_of(12, 12, 1, pixels), out;
    cr_assert_eq(picture_resize(&in, 4, 4, PICTURE_AREA, PICTURE_STRETCH, &out, NULL), PEN_OK);
    for (unsigned i = 0; i < 16; i++) {
        cr_assert_eq(out.pixels[i], i / 4 * 60 + i % 4 * 7);
    }
    picture_fini(&out);
    in = picture_of(6, 1, 1, six);
    cr_assert_eq(picture_resize(&in, 4, 1, PICTURE_AREA, PICTURE_STRETCH, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 45, "the centres of 0 and 90 lie in it");
    cr_assert_eq(out.pixels[1], 30, "that of 90 lies on its edge");
    picture_fini(&out);
    cr_assert_eq(picture_resize(&in, 12, 2, PICTURE_AREA, PICTURE_STRETCH, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[3], 90);
    picture_fini(&out);
}

Test(resize, a_flat_picture_stays_flat_at_any_size)
{
    static uint8_t pixels[97 * 31 * 3];
    struct picture in = picture_of(97, 31, 3, pixels), out;
    memset(pixels, 200, sizeof pixels);
    for (uint32_t width = 1; width < 200; width += 13) {
        cr_assert_eq(picture_resize(&in, width, width / 2 + 1, PICTURE_BILINEAR, PICTURE_CROP, &out, NULL), PEN_OK);
        for (size_t i = 0; i < (size_t)width * (width / 2 + 1) * 3; i++) {
            cr_assert_eq(out.pixels[i], 200);
        }
        picture_fini(&out);
    }
}

Test(resize, crop_takes_the_middle_and_pad_keeps_all)
{
    uint8_t pixels[6] = {10, 20, 30, 40, 50, 60}; /* 6x1 */
    struct picture in = picture_of(6, 1, 1, pixels), out;
    cr_assert_eq(picture_resize(&in, 2, 1, PICTURE_NEAREST, PICTURE_CROP, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 30);
    cr_assert_eq(out.pixels[1], 40);
    picture_fini(&out);
    cr_assert_eq(picture_resize(&in, 6, 3, PICTURE_NEAREST, PICTURE_PAD, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 0);
    cr_assert_eq(memcmp(out.pixels + 6, pixels, 6), 0);
    cr_assert_eq(out.pixels[17], 0);
    picture_fini(&out);
}

Test(resize, grey_is_weighted_and_colour_is_grey_three_times)
{
    uint8_t rgb[6] = {255, 0, 0, 255, 255, 255}, grey[1] = {9};
    struct picture in = picture_of(2, 1, 3, rgb), out;
    cr_assert_eq(picture_convert(&in, 1, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 76);
    cr_assert_eq(out.pixels[1], 255);
    picture_fini(&out);
    in = picture_of(1, 1, 1, grey);
    cr_assert_eq(picture_convert(&in, 3, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[2], 9);
    picture_fini(&out);
}

Test(resize, memory_of_a_resize_has_a_cap)
{
    uint8_t one = 0;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct picture wide = picture_of(1, 1, 1, &one), out;
    cr_assert_eq(picture_resize(&wide, 20000, 20000, PICTURE_BILINEAR, PICTURE_STRETCH, &out, &error),
                 PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "20000x20000") != NULL, "%s", error.text);
    static uint8_t tall[30000];
    struct picture line = picture_of(1, 30000, 1, tall);
    cr_assert_eq(picture_resize(&line, 10000, 1, PICTURE_AREA, PICTURE_STRETCH, &out, &error), PEN_OK, "%s",
                 error.text);
    cr_assert(out.width == 10000 && out.height == 1);
    picture_fini(&out);
    cr_assert_eq(picture_convert(&line, 2, &out, &error), PEN_ERR_INVALID);
}
