#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "image.h"
#include "preprocess.h"

static uint8_t *file_of(const char *path, size_t *ret_size)
{
    static uint8_t bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) {
        return NULL;
    }
    *ret_size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    return bytes;
}

static size_t png_make(uint8_t *to, size_t room, const uint8_t *pixels, unsigned width, unsigned height,
                       unsigned format)
{
    png_image png = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = format};
    png_alloc_size_t size = room;
    cr_assert(png_image_write_to_memory(&png, to, &size, 0, pixels, 0, NULL) != 0);
    return size;
}

Test(image, png_grey_and_colour_come_out_exact)
{
    uint8_t file[4096], grey[12], rgb[36];
    struct image image;
    for (unsigned i = 0; i < 36; i++) {
        rgb[i] = (uint8_t)(i * 7);
        grey[i % 12] = (uint8_t)(i * 5);
    }
    size_t size = png_make(file, sizeof file, grey, 4, 3, PNG_FORMAT_GRAY);
    cr_assert_eq(image_decode(file, size, "grey", &image, NULL), PEN_OK);
    cr_assert_eq(image.channels, 1);
    cr_assert_eq(image.width, 4);
    cr_assert_eq(image.height, 3);
    cr_assert_eq(memcmp(image.pixels, grey, 12), 0);
    image_fini(&image);
    size = png_make(file, sizeof file, rgb, 4, 3, PNG_FORMAT_RGB);
    cr_assert_eq(image_decode(file, size, "rgb", &image, NULL), PEN_OK);
    cr_assert_eq(image.channels, 3);
    cr_assert_eq(memcmp(image.pixels, rgb, 36), 0);
    image_fini(&image);
}

/* 3x2 pixels, 24 bits, bottom row first, rows padded to 12 bytes. */
static size_t bmp_make(uint8_t *b)
{
    memset(b, 0, 54 + 24);
    memcpy(b, "BM", 2);
    b[10] = 54;
    b[14] = 40;
    b[18] = 3;
    b[22] = 2;
    b[26] = 1;
    b[28] = 24;
    for (unsigned y = 0; y < 2; y++) {
        for (unsigned x = 0; x < 9; x++) {
            b[54 + y * 12 + x] = (uint8_t)(y * 100 + x);
        }
    }
    return 54 + 24;
}

Test(image, bmp_rows_run_upwards_and_blue_comes_first)
{
    uint8_t b[128];
    struct image image;
    size_t size = bmp_make(b);
    cr_assert_eq(image_decode(b, size, "bmp", &image, NULL), PEN_OK);
    const uint8_t want[18] = {102, 101, 100, 105, 104, 103, 108, 107, 106, 2, 1, 0, 5, 4, 3, 8, 7, 6};
    cr_assert_eq(memcmp(image.pixels, want, 18), 0);
    image_fini(&image);
    uint32_t up = (uint32_t)-2;
    memcpy(b + 22, &up, 4); /* top down */
    cr_assert_eq(image_decode(b, size, "bmp", &image, NULL), PEN_OK);
    cr_assert_eq(image.pixels[0], 2);
    image_fini(&image);
}

Test(image, broken_files_are_errors_never_crashes)
{
    uint8_t whole[4096], pixels[64 * 3];
    struct image image;
    memset(pixels, 77, sizeof pixels);
    for (int kind = 0; kind < 2; kind++) {
        size_t size = kind ? bmp_make(whole) : png_make(whole, sizeof whole, pixels, 8, 8, PNG_FORMAT_RGB);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut + 1);
            memcpy(copy, whole, cut);
            if (image_decode(copy, cut, "cut", &image, NULL) == PEN_OK) { /* libpng does not need the last chunk */
                cr_assert_eq(kind, 0);
                image_fini(&image);
            }
            free(copy);
        }
        for (size_t at = 2; at < size; at++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, whole, size);
            copy[at] ^= 0xFF;
            if (image_decode(copy, size, "flipped", &image, NULL) == PEN_OK) {
                image_fini(&image);
            }
            free(copy);
        }
    }
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(image_decode((const uint8_t *)"no picture at all", 17, "some.txt", &image, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "some.txt") != NULL);
}

Test(image, jpeg_and_bmp_photos_are_read)
{
    size_t size = 0;
    struct image image;
    uint8_t *bytes = file_of(PENSTOCK_SHARED "/images/parrot.jpg", &size);
    if (!bytes) {
        cr_skip("no " PENSTOCK_SHARED "/images");
    }
    cr_assert_eq(image_decode(bytes, size, "parrot", &image, NULL), PEN_OK);
    cr_assert_eq(image.channels, 3);
    cr_assert_gt(image.width, 100);
    image_fini(&image);
    cr_assert_neq(image_decode(bytes, 2000, "cut parrot", &image, NULL), PEN_ERR_INVALID);
    bytes = file_of(PENSTOCK_SHARED "/images/mnist_nine.bmp", &size);
    cr_assert_eq(image_decode(bytes, size, "nine", &image, NULL), PEN_OK);
    cr_assert_eq(image.width, 28);
    image_fini(&image);
}

static struct image image_of(uint32_t width, uint32_t height, uint32_t channels, uint8_t *pixels)
{
    return (struct image){width, height, channels, pixels};
}

Test(image, same_size_changes_nothing)
{
    uint8_t pixels[5 * 4];
    for (unsigned i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 12);
    }
    struct image in = image_of(5, 4, 1, pixels), out;
    for (int filter = 0; filter < 2; filter++) {
        cr_assert_eq(image_resize(&in, 5, 4, (enum image_filter)filter, IMAGE_STRETCH, &out, NULL), PEN_OK);
        cr_assert_eq(memcmp(out.pixels, pixels, sizeof pixels), 0);
        image_fini(&out);
    }
}

Test(image, halving_averages_and_doubling_interpolates_between_centres)
{
    uint8_t four[4] = {0, 100, 200, 40}, two[2] = {0, 100};
    struct image in = image_of(4, 1, 1, four), out;
    cr_assert_eq(image_resize(&in, 2, 1, IMAGE_BILINEAR, IMAGE_STRETCH, &out, NULL), PEN_OK);
    /* triangle of radius 2 around 1.0: weights .75 .75 .25 of pixels 0, 1, 2 */
    cr_assert_eq(out.pixels[0], (uint8_t)((0.75 * 0 + 0.75 * 100 + 0.25 * 200) / 1.75 + 0.5));
    image_fini(&out);
    in = image_of(2, 1, 1, two);
    cr_assert_eq(image_resize(&in, 4, 1, IMAGE_BILINEAR, IMAGE_STRETCH, &out, NULL), PEN_OK);
    const uint8_t want[4] = {0, 25, 75, 100};
    cr_assert_eq(memcmp(out.pixels, want, 4), 0);
    image_fini(&out);
    cr_assert_eq(image_resize(&in, 4, 1, IMAGE_NEAREST, IMAGE_STRETCH, &out, NULL), PEN_OK);
    const uint8_t near[4] = {0, 0, 100, 100};
    cr_assert_eq(memcmp(out.pixels, near, 4), 0);
    image_fini(&out);
}

Test(image, area_undoes_an_enlargement_and_takes_means_of_parts)
{
    uint8_t pixels[4 * 4 * 9], six[6] = {0, 90, 30, 60, 100, 200};
    for (unsigned y = 0; y < 12; y++) {
        for (unsigned x = 0; x < 12; x++) {
            pixels[y * 12 + x] = (uint8_t)(y / 3 * 60 + x / 3 * 7);
        }
    }
    struct image in = image_of(12, 12, 1, pixels), out;
    cr_assert_eq(image_resize(&in, 4, 4, IMAGE_AREA, IMAGE_STRETCH, &out, NULL), PEN_OK);
    for (unsigned i = 0; i < 16; i++) {
        cr_assert_eq(out.pixels[i], i / 4 * 60 + i % 4 * 7);
    }
    image_fini(&out);
    in = image_of(6, 1, 1, six);
    cr_assert_eq(image_resize(&in, 4, 1, IMAGE_AREA, IMAGE_STRETCH, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 30, "(0 + 90 / 2) / 1.5");
    cr_assert_eq(out.pixels[1], 50, "(90 / 2 + 30) / 1.5");
    image_fini(&out);
    cr_assert_eq(image_resize(&in, 12, 2, IMAGE_AREA, IMAGE_STRETCH, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[3], 90);
    image_fini(&out);
}

Test(image, a_flat_picture_stays_flat_at_any_size)
{
    static uint8_t pixels[97 * 31 * 3];
    struct image in = image_of(97, 31, 3, pixels), out;
    memset(pixels, 200, sizeof pixels);
    for (uint32_t width = 1; width < 200; width += 13) {
        cr_assert_eq(image_resize(&in, width, width / 2 + 1, IMAGE_BILINEAR, IMAGE_CROP, &out, NULL), PEN_OK);
        for (size_t i = 0; i < (size_t)width * (width / 2 + 1) * 3; i++) {
            cr_assert_eq(out.pixels[i], 200);
        }
        image_fini(&out);
    }
}

Test(image, crop_takes_the_middle_and_pad_keeps_all)
{
    uint8_t pixels[6] = {10, 20, 30, 40, 50, 60}; /* 6x1 */
    struct image in = image_of(6, 1, 1, pixels), out;
    cr_assert_eq(image_resize(&in, 2, 1, IMAGE_NEAREST, IMAGE_CROP, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 30);
    cr_assert_eq(out.pixels[1], 40);
    image_fini(&out);
    cr_assert_eq(image_resize(&in, 6, 3, IMAGE_NEAREST, IMAGE_PAD, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 0);
    cr_assert_eq(memcmp(out.pixels + 6, pixels, 6), 0);
    cr_assert_eq(out.pixels[17], 0);
    image_fini(&out);
}

Test(image, grey_is_weighted_and_colour_is_grey_three_times)
{
    uint8_t rgb[6] = {255, 0, 0, 255, 255, 255}, grey[1] = {9};
    struct image in = image_of(2, 1, 3, rgb), out;
    cr_assert_eq(image_convert(&in, 1, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[0], 76);
    cr_assert_eq(out.pixels[1], 255);
    image_fini(&out);
    in = image_of(1, 1, 1, grey);
    cr_assert_eq(image_convert(&in, 3, &out, NULL), PEN_OK);
    cr_assert_eq(out.pixels[2], 9);
    image_fini(&out);
}

Test(preprocess, reads_the_schema_and_names_what_is_wrong)
{
    struct preprocess p;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(
        preprocess_parse("{\"input\": \"image\", \"layout\": \"NCHW\", \"channels\": 1, \"height\": 8, \"width\": 9,"
                         "\"resize\": \"nearest\", \"fit\": \"pad\", \"mean\": [0]}",
                         NULL, &p, &error),
        PEN_OK, "%s", error.text);
    cr_assert_str_eq(p.input, "image");
    cr_assert(p.channels == 1 && p.height == 8 && p.width == 9 && p.filter == IMAGE_NEAREST && p.fit == IMAGE_PAD);
    const char *const bad[] = {"",
                               "[1]",
                               "{\"channels\": 2, \"height\": 8, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 0, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 8}",
                               "{\"channels\": 1, \"height\": 1e99, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 8, \"width\": 8, \"fit\": \"squeeze\"}"};
    const struct pen_signature flat = {.name = "x", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {1, 64}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_neq(preprocess_parse(bad[i], &flat, &p, &error), PEN_OK, "%s", bad[i]);
    }
    const struct pen_signature sig = {.name = "x", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {-1, 5, 6, 3}};
    cr_assert_eq(preprocess_parse("{\"width\": 9}", &sig, &p, &error), PEN_OK, "%s", error.text);
    cr_assert(p.height == 5 && p.width == 9 && p.channels == 3, "what the text leaves out is the signature's");
}
