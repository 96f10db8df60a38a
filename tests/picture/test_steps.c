/* Steps: numbers that Pillow gave (pillow.py compares many more, where Pillow is there), places in the picture, quantisation, caps. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "encoders.h"
#include "steps.h"

#define WIDTH  9u
#define HEIGHT 7u

static uint8_t file[1 << 20];

/* 9x7: pixel (x, y) is x * 29 + y * 53 + channel * 71, modulo 256. */
static size_t gradient(void)
{
    static uint8_t rgb[WIDTH * HEIGHT * 3];
    for (unsigned i = 0; i < sizeof rgb; i++) {
        rgb[i] = (uint8_t)(i / 3 % WIDTH * 29 + i / 3 / WIDTH * 53 + i % 3 * 71);
    }
    struct png_ask ask = {WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, rgb, WIDTH * 3, NULL, 0};
    return png_make(file, sizeof file, &ask);
}

static const struct picture_numbers bytes = {.dtype = PEN_DTYPE_U8, .scale = 1.0f, .std = {1.0f, 1.0f, 1.0f}};

static struct picture_steps *one_step(struct picture_step step)
{
    static struct picture_steps steps;
    steps = (struct picture_steps){.steps = {step}, .count = 1, .channels = 3};
    cr_assert(picture_steps_size(&steps, &steps.width, &steps.height) || step.kind == PICTURE_STEP_SHORT);
    picture_steps_ready(&steps, &bytes);
    return &steps;
}

static struct picture_map run(const struct picture_steps *steps, size_t size, void *to)
{
    struct picture_map map;
    struct pen_error error = {.text = ""};
    cr_assert_eq(picture_steps_run(steps, file, size, "it", to, &map, &error), PEN_OK, "%s", error.text);
    return map;
}

static void same(const uint8_t *got, const uint8_t *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(got[i], want[i], "%s, at %zu: %u, not %u", what, i, got[i], want[i]);
    }
}

Test(steps, resizing_gives_pillows_numbers)
{
    static const struct {
        enum scale_filter filter;
        uint8_t small[18], wide[66];
    } kept[] = {
        {SCALE_BILINEAR,
         {113, 134, 143, 147, 127, 110, 115, 110, 140, 115, 111, 141, 124, 149, 124, 143, 127, 117},
         {84,  137, 166, 105, 128, 140, 119, 140, 146, 135, 140, 141, 151, 122, 106, 140, 146,
          86,  164, 106, 110, 146, 115, 122, 111, 115, 139, 92,  105, 151, 113, 113, 142, 103,
          109, 138, 124, 100, 146, 112, 112, 136, 107, 129, 136, 123, 141, 145, 112, 165, 105,
          136, 145, 129, 148, 159, 111, 141, 148, 111, 136, 111, 123, 157, 85,  114}},
        {SCALE_AREA,
         {109, 137, 144, 153, 117, 103, 112, 119, 147, 95, 109, 152, 125, 168, 125, 155, 112, 98},
         {80,  151, 158, 109, 116, 123, 138, 145, 152, 138, 145, 152, 167, 110, 117, 132, 139,
          82,  161, 104, 111, 126, 133, 140, 126, 133, 140, 91,  98,  169, 120, 127, 134, 94,
          80,  151, 123, 109, 180, 67,  138, 124, 67,  138, 124, 96,  167, 153, 125, 196, 96,
          154, 140, 125, 183, 169, 69,  183, 169, 69,  127, 112, 98,  156, 56,  127}},
        {SCALE_CUBIC,
         {111, 136, 145, 151, 124, 109, 114, 111, 141, 115, 109, 139, 123, 151, 127, 144, 127, 115},
         {82,  140, 168, 104, 126, 133, 119, 142, 145, 137, 140, 148, 154, 114, 105, 140, 141,
          85,  167, 103, 109, 146, 119, 122, 105, 117, 143, 90,  103, 155, 116, 116, 141, 107,
          110, 135, 133, 96,  149, 114, 108, 133, 103, 129, 131, 124, 142, 148, 110, 166, 110,
          134, 141, 137, 152, 160, 111, 140, 154, 109, 131, 113, 125, 156, 83,  111}},
        {SCALE_NEAREST,
         {82, 153, 224, 169, 240, 55, 0, 71, 142, 38, 109, 180, 125, 196, 11, 212, 27, 98},
         {53,  124, 195, 82,  153, 224, 111, 182, 253, 111, 182, 253, 140, 211, 26,  169, 240, 55, 198, 13,  84, 227,
          42,  113, 227, 42,  113, 0,   71,  142, 29,  100, 171, 9,   80,  151, 38,  109, 180, 67, 138, 209, 67, 138,
          209, 96,  167, 238, 125, 196, 11,  154, 225, 40,  183, 254, 69,  183, 254, 69,  212, 27, 98,  241, 56, 127}},
    };
    uint8_t got[66];
    size_t size = gradient();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct picture_step step = {.width = 3, .height = 2, .filter = kept[i].filter};
        run(one_step(step), size, got);
        same(got, kept[i].small, sizeof kept[i].small, "small");
        step.width = 11;
        run(one_step(step), size, got);
        same(got, kept[i].wide, sizeof kept[i].wide, "wide");
    }
}

/* Half a step is added seven times: what lies between two pixels falls to the left one, as with Pillow. */
Test(steps, nearest_adds_its_steps)
{
    const uint8_t two[2] = {0, 200}, want[7] = {0, 0, 0, 0, 200, 200, 200};
    uint8_t got[7];
    struct png_ask ask = {2, 1, 8, PNG_COLOR_TYPE_GRAY, two, 2, NULL, 0};
    size_t size = png_make(file, sizeof file, &ask);
    struct picture_steps *steps = one_step((struct picture_step){.width = 7, .height = 1, .filter = SCALE_NEAREST});
    steps->channels = 1;
    picture_steps_ready(steps, &bytes);
    run(steps, size, got);
    same(got, want, sizeof want, "nearest");
}

/* The longer side follows the shorter one, however long it becomes. */
Test(steps, a_long_side_keeps_its_proportions)
{
    static uint8_t line[2 * 900], cut[16], whole[16];
    for (unsigned i = 0; i < sizeof line; i++) {
        line[i] = (uint8_t)(i / 2 * 7);
    }
    struct png_ask ask = {2, 900, 8, PNG_COLOR_TYPE_GRAY, line, 2, NULL, 0};
    size_t size = png_make(file, sizeof file, &ask);
    struct picture_steps steps = {
        .steps = {{.kind = PICTURE_STEP_SHORT, .width = 77}, {.kind = PICTURE_STEP_MIDDLE, .width = 4, .height = 4}},
        .count = 2,
        .channels = 1,
        .width = 4,
        .height = 4};
    picture_steps_ready(&steps, &bytes);
    run(&steps, size, cut);
    steps.steps[0] = (struct picture_step){.kind = PICTURE_STEP_RESIZE, .width = 77, .height = 77 * 900 / 2};
    run(&steps, size, whole);
    same(cut, whole, sizeof whole, "short");
}

Test(steps, a_letterbox_and_a_cut_say_where_their_points_lie)
{
    static const uint8_t padded[48] = {69, 140, 177, 128, 161, 121, 168, 121, 83, 111, 87,  139, 156, 112, 106, 145,
                                       92, 129, 108, 126, 159, 114, 148, 139, 84, 112, 164, 103, 168, 130, 159, 160,
                                       90, 151, 96,  111, 1,   2,   3,   1,   2,  3,   1,   2,   3,   1,   2,   3},
                         fitted[18] = {127, 160, 123, 166, 120, 84,  146, 92,  129,
                                       108, 126, 159, 104, 167, 131, 158, 158, 91};
    uint8_t got[48];
    size_t size = gradient();
    struct picture_step step = {.width = 4, .height = 4, .fit = PICTURE_PAD, .fill = {1, 2, 3}};
    struct picture_map map = run(one_step(step), size, got);
    same(got, padded, sizeof padded, "letterbox");
    cr_assert(map.width == WIDTH && map.height == HEIGHT && map.input_width == 4 && map.input_height == 4);
    cr_assert_float_eq(picture_map_x(&map, 4), WIDTH, 1e-9);
    cr_assert_float_eq(picture_map_y(&map, 3), HEIGHT, 1e-9, "three of four rows are picture");
    step = (struct picture_step){.width = 2, .height = 3, .fit = PICTURE_CROP};
    map = run(one_step(step), size, got);
    same(got, fitted, sizeof fitted, "cut");
    cr_assert_float_eq(picture_map_x(&map, 0), (WIDTH - HEIGHT * 2.0 / 3.0) / 2.0, 1e-5);
    cr_assert_float_eq(picture_map_y(&map, 3), HEIGHT, 1e-9);
    step = (struct picture_step){.kind = PICTURE_STEP_MIDDLE, .width = 3, .height = 3};
    map = run(one_step(step), size, got);
    cr_assert(picture_map_x(&map, 0) == 3.0 && picture_map_y(&map, 0) == 2.0 && got[0] == (3 * 29 + 2 * 53) % 256);
}

Test(steps, webp_with_orientation_and_alpha)
{
    static const uint8_t plain[] = {0x52, 0x49, 0x46, 0x46, 0x1e, 0x0,  0x0,  0x0,  0x57, 0x45, 0x42, 0x50, 0x56,
                                    0x50, 0x38, 0x4c, 0x11, 0x0,  0x0,  0x0,  0x2f, 0x2,  0x40, 0x0,  0x0,  0x7,
                                    0x50, 0x85, 0x22, 0x57, 0xab, 0xff, 0x81, 0x88, 0xe8, 0x7f, 0x0,  0x0},
                         turned[] = {0x52, 0x49, 0x46, 0x46, 0x52, 0x0,  0x0,  0x0,  0x57, 0x45, 0x42, 0x50, 0x56,
                                     0x50, 0x38, 0x58, 0xa,  0x0,  0x0,  0x0,  0x18, 0x0,  0x0,  0x0,  0x1,  0x0,
                                     0x0,  0x0,  0x0,  0x0,  0x56, 0x50, 0x38, 0x4c, 0x11, 0x0,  0x0,  0x0,  0x2f,
                                     0x1,  0x0,  0x0,  0x10, 0xf,  0xb0, 0xff, 0xf3, 0x1f, 0xf3, 0x1f, 0x31, 0x32,
                                     0xa2, 0xff, 0x1,  0x0,  0x45, 0x58, 0x49, 0x46, 0x1a, 0x0,  0x0,  0x0,  0x4d,
                                     0x4d, 0x0,  0x2a, 0x0,  0x0,  0x0,  0x8,  0x0,  0x1,  0x1,  0x12, 0x0,  0x3,
                                     0x0,  0x0,  0x0,  0x1,  0x0,  0x6,  0x0,  0x0,  0x0,  0x0,  0x0,  0x0};
    uint8_t got[18];
    struct picture_step step = {.kind = PICTURE_STEP_CROP, .width = 3, .height = 2};
    memcpy(file, plain, sizeof plain);
    run(one_step(step), sizeof plain, got);
    same(got + 15, (const uint8_t[]){200, 10, 90}, 3, "the last pixel");
    memcpy(file, turned, sizeof turned); /* red, and green that is not seen; orientation 6 puts it below */
    step.width = 1;
    struct picture_steps *steps = one_step(step);
    run(steps, sizeof turned, got);
    same(got, (const uint8_t[]){255, 0, 0, 0, 0, 0}, 6, "on black");
    steps->options.alpha_dropped = true;
    run(steps, sizeof turned, got);
    same(got, (const uint8_t[]){255, 0, 0, 0, 255, 0}, 6, "dropped");
    steps->options.as_stored = true;
    steps->steps[0].width = steps->width = 2;
    steps->steps[0].height = steps->height = 1;
    run(steps, sizeof turned, got);
    same(got, (const uint8_t[]){255, 0, 0, 0, 255, 0}, 6, "as stored");
}

Test(steps, numbers_are_normalised_quantised_and_laid_out)
{
    float planes[WIDTH * HEIGHT * 3];
    int8_t small[WIDTH * HEIGHT * 3];
    size_t size = gradient();
    struct picture_step step = {.kind = PICTURE_STEP_CROP, .width = WIDTH, .height = HEIGHT};
    struct picture_steps *steps = one_step(step);
    struct picture_numbers numbers = {
        .dtype = PEN_DTYPE_F32, .scale = 1.0f / 255.0f, .mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.25f, 0.5f}};
    steps->nchw = steps->bgr = true;
    picture_steps_ready(steps, &numbers);
    run(steps, size, planes);
    cr_assert_float_eq(planes[0], (142.0f / 255.0f - 0.5f) / 0.2f, 1e-6, "blue first: %f", (double)planes[0]);
    cr_assert_float_eq(planes[2 * WIDTH * HEIGHT + 1], (29.0f / 255.0f - 0.3f) / 0.5f, 1e-6);
    numbers = (struct picture_numbers){.dtype = PEN_DTYPE_I8,
                                       .scale = 1.0f / 255.0f,
                                       .std = {1, 1, 1},
                                       .quantised = true,
                                       .q_scale = 0.004f,
                                       .q_zero = -100};
    steps->nchw = steps->bgr = false;
    picture_steps_ready(steps, &numbers);
    run(steps, size, small);
    cr_assert_eq(small[0], -100);
    cr_assert_eq(small[1], (int)lrint(71.0 / 255.0 / 0.004) - 100);
    numbers.quantised = false;
    picture_steps_ready(steps, &numbers);
    run(steps, size, small);
    cr_assert(small[0] == -128 && small[1] == 71 - 128, "without a quantisation the pixels less 128");
}

Test(steps, a_scaled_decoding_keeps_places_and_is_off_by_default)
{
    static uint8_t rgb[64 * 48 * 3], full[8 * 6 * 3], quick[8 * 6 * 3];
    for (unsigned i = 0; i < sizeof rgb; i++) {
        rgb[i] = (uint8_t)(i / 3 % 64 * 4 * (i % 3 != 1) + i / 3 / 64 * 5 * (i % 3 == 1));
    }
    struct jpeg_ask ask = {64, 48, 3, 6, false, false, rgb};
    size_t size = jpeg_make(file, sizeof file, &ask);
    struct picture_step step = {.width = 6, .height = 8};
    struct picture_steps *steps = one_step(step);
    struct picture_map a = run(steps, size, full);
    steps->scaled = true;
    picture_steps_ready(steps, &bytes);
    cr_assert_eq(steps->options.least_width, 6u);
    struct picture_map b = run(steps, size, quick);
    cr_assert(memcmp(full, quick, sizeof full) != 0, "another way of decoding");
    for (size_t i = 0; i < sizeof full; i++) {
        cr_assert_leq(abs(full[i] - quick[i]), 16, "at %zu: %u, %u", i, full[i], quick[i]);
    }
    cr_assert(a.width == 48 && a.height == 64 && b.width == 48 && b.height == 64);
    cr_assert_float_eq(b.scale_x, a.scale_x, 1e-9);
    cr_assert_float_eq(b.scale_y, a.scale_y, 1e-9);
}

Test(steps, caps_hold_before_memory_is_taken)
{
    uint8_t got[12];
    struct picture_map map;
    struct pen_error error = {.text = ""};
    size_t size = gradient();
    struct picture_steps *steps = one_step((struct picture_step){.width = 2, .height = 2});
    steps->limits.pixels = WIDTH * HEIGHT - 1;
    cr_assert_eq(picture_steps_run(steps, file, size, "it", got, &map, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "it has 9x7 pixels"), "%s", error.text);
    steps->limits = (struct picture_limits){.memory_bytes = 64};
    cr_assert_eq(picture_steps_run(steps, file, size, "it", got, &map, &error), PEN_ERR_TOO_LARGE, "%s", error.text);
    for (unsigned i = 0; i < 4; i++) {
        file[16 + i] = file[20 + i] = 0x7F; /* a bomb: 2139062143 pixels a side */
    }
    steps->limits = (struct picture_limits){0};
    enum pen_status status = picture_steps_run(steps, file, size, "it", got, &map, &error);
    cr_assert(status == PEN_ERR_TOO_LARGE || status == PEN_ERR_CORRUPT, "%s", error.text);
}
