/* What comes out of files of every kind that is read. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#include "encoders.h"
#include "picture.h"

static uint8_t file[1 << 16];

static struct picture decoded(size_t size, const char *what)
{
    struct picture picture = {0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    uint8_t *exact = malloc(size); /* so that a byte too far is seen */
    memcpy(exact, file, size);
    cr_assert_eq(picture_decode(exact, size, what, NULL, &picture, &error), PEN_OK, "%s: %s", what, error.text);
    free(exact);
    return picture;
}

static void pixels_are(struct picture *p, uint32_t width, uint32_t height, uint32_t channels, const uint8_t *want)
{
    cr_assert(p->width == width && p->height == height && p->channels == channels, "%ux%u, %u channels", p->width,
              p->height, p->channels);
    for (size_t i = 0; i < (size_t)width * height * channels; i++) {
        cr_assert_eq(p->pixels[i], want[i], "at %zu: %u, not %u", i, p->pixels[i], want[i]);
    }
    picture_fini(p);
}

Test(decode, png_grey_and_colour_come_out_exact)
{
    uint8_t rgb[36];
    for (unsigned i = 0; i < 36; i++) {
        rgb[i] = (uint8_t)(i * 7);
    }
    struct png_ask ask = {4, 3, 8, PNG_COLOR_TYPE_GRAY, rgb, 4, NULL, 0};
    struct picture p = decoded(png_make(file, sizeof file, &ask), "grey");
    pixels_are(&p, 4, 3, 1, rgb);
    ask = (struct png_ask){4, 3, 8, PNG_COLOR_TYPE_RGB, rgb, 12, NULL, 0};
    p = decoded(png_make(file, sizeof file, &ask), "colour");
    pixels_are(&p, 4, 3, 3, rgb);
}

Test(decode, png_of_16_bits_keeps_the_high_ones)
{
    const uint8_t deep[12] = {0, 0, 0x80, 0, 0xFF, 0xFF, 0x40, 0, 0x10, 0, 0xC0, 0},
                  want[6] = {0, 128, 255, 64, 16, 191};
    struct png_ask ask = {6, 1, 16, PNG_COLOR_TYPE_GRAY, deep, 12, NULL, 0};
    struct picture p = decoded(png_make(file, sizeof file, &ask), "16 bits");
    cr_assert_eq(p.channels, 1);
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_leq(abs(p.pixels[i] - want[i]), 1, "not as linear light: %u at %u", p.pixels[i], i);
    }
    picture_fini(&p);
}

Test(decode, png_alpha_lies_on_white_and_palettes_are_looked_up)
{
    const uint8_t rgba[8] = {10, 20, 30, 0, 10, 20, 30, 255}, over[6] = {255, 255, 255, 10, 20, 30};
    struct png_ask ask = {2, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, rgba, 8, NULL, 0};
    struct picture p = decoded(png_make(file, sizeof file, &ask), "alpha");
    pixels_are(&p, 2, 1, 3, over);
    const uint8_t bits[1] = {0x40}, colours[6] = {10, 20, 30, 200, 100, 50};
    ask = (struct png_ask){2, 1, 1, PNG_COLOR_TYPE_PALETTE, bits, 1, NULL, 0};
    p = decoded(png_make(file, sizeof file, &ask), "palette");
    pixels_are(&p, 2, 1, 3, colours);
}

/* 16x8: a stored picture whose quarters are 10, 90, 170 and 250. */
static void quarters(uint8_t *pixels)
{
    for (unsigned y = 0; y < 8; y++) {
        for (unsigned x = 0; x < 16; x++) {
            pixels[y * 16 + x] = (uint8_t)(10 + 80 * (x / 8) + 160 * (y / 4));
        }
    }
}

/* Top left, top right, bottom left, bottom right of the upright picture, as Exif's drawings have them. */
static const uint8_t upright[9][4] = {{0},
                                      {10, 90, 170, 250},
                                      {90, 10, 250, 170},
                                      {250, 170, 90, 10},
                                      {170, 250, 10, 90},
                                      {10, 170, 90, 250},
                                      {170, 10, 250, 90},
                                      {250, 90, 170, 10},
                                      {90, 250, 10, 170}};

static void corners_are(struct picture *p, unsigned orientation, const char *what)
{
    bool turned = orientation >= 5;
    cr_assert(p->width == (turned ? 8u : 16u) && p->height == (turned ? 16u : 8u), "%s %u: %ux%u", what, orientation,
              p->width, p->height);
    for (unsigned i = 0; i < 4; i++) {
        size_t at = (size_t)(i / 2 ? p->height - 1 : 0) * p->width + (i % 2 ? p->width - 1 : 0);
        cr_assert_leq(abs(p->pixels[at] - upright[orientation][i]), 3, "%s of orientation %u: %u at corner %u", what,
                      orientation, p->pixels[at], i);
    }
    picture_fini(p);
}

Test(decode, photographs_are_upright_whatever_their_orientation)
{
    uint8_t pixels[16 * 8], exif[32];
    quarters(pixels);
    for (unsigned o = 1; o <= 8; o++) {
        struct jpeg_ask ask = {16, 8, 1, o, o % 2, o % 3 == 0, pixels};
        struct picture p = decoded(jpeg_make(file, sizeof file, &ask), "a JPEG");
        corners_are(&p, o, "a JPEG");
        struct png_ask png = {16, 8, 8, PNG_COLOR_TYPE_GRAY, pixels, 16, exif, (uint32_t)exif_make(exif, o % 2, o)};
        p = decoded(png_make(file, sizeof file, &png), "a PNG");
        corners_are(&p, o, "a PNG");
    }
    struct jpeg_ask odd = {16, 8, 1, 9, false, false, pixels}; /* there is no such orientation */
    struct picture p = decoded(jpeg_make(file, sizeof file, &odd), "nonsense");
    corners_are(&p, 1, "nonsense");
}

Test(decode, jpeg_colours_baseline_and_progressive)
{
    uint8_t rgb[16 * 16 * 3];
    for (size_t i = 0; i < sizeof rgb; i += 3) {
        memcpy(rgb + i, (const uint8_t[]){200, 100, 50}, 3);
    }
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_ask ask = {16, 16, 3, 0, progressive, false, rgb};
        struct picture p = decoded(jpeg_make(file, sizeof file, &ask), "colour");
        cr_assert_eq(p.channels, 3);
        cr_assert(abs(p.pixels[0] - 200) <= 2 && abs(p.pixels[1] - 100) <= 2 && abs(p.pixels[2] - 50) <= 2);
        picture_fini(&p);
    }
}

Test(decode, cmyk_becomes_rgb)
{
    uint8_t cmyk[8 * 8 * 4];
    for (size_t i = 0; i < sizeof cmyk; i += 4) { /* as Adobe writes it: 255 is no ink */
        memcpy(cmyk + i, (const uint8_t[]){255, 128, 0, 200}, 4);
    }
    struct jpeg_ask ask = {8, 8, 4, 0, false, false, cmyk};
    struct picture p = decoded(jpeg_make(file, sizeof file, &ask), "CMYK");
    cr_assert_eq(p.channels, 3);
    cr_assert(abs(p.pixels[0] - 200) <= 2 && abs(p.pixels[1] - 100) <= 2 && p.pixels[2] <= 2, "%u %u %u", p.pixels[0],
              p.pixels[1], p.pixels[2]);
    picture_fini(&p);
}

Test(decode, bmp_rows_run_upwards_and_blue_comes_first)
{
    size_t size = bmp_make(file);
    const uint8_t want[18] = {102, 101, 100, 105, 104, 103, 108, 107, 106, 2, 1, 0, 5, 4, 3, 8, 7, 6};
    struct picture p = decoded(size, "bmp");
    pixels_are(&p, 3, 2, 3, want);
    uint32_t up = (uint32_t)-2;
    memcpy(file + 22, &up, 4); /* top down */
    p = decoded(size, "bmp");
    cr_assert_eq(p.pixels[0], 2);
    picture_fini(&p);
}

/* 1x1, 32 bits, compression 3 with masks at 54. */
static size_t masked(uint32_t red, uint32_t green, uint32_t blue)
{
    const uint32_t masks[3] = {red, green, blue};
    bmp_make(file);
    file[18] = file[22] = 1;
    file[28] = 32;
    file[30] = 3;
    file[10] = 70;
    memcpy(file + 54, masks, sizeof masks);
    memcpy(file + 70, (const uint8_t[]){1, 2, 3, 4}, 4);
    return 74;
}

Test(decode, bmp_masks_say_which_byte_is_which)
{
    struct picture p = decoded(masked(0xFF, 0xFF00, 0xFF0000), "RGB");
    pixels_are(&p, 1, 1, 3, (const uint8_t[]){1, 2, 3});
    p = decoded(masked(0xFF000000, 0xFF0000, 0xFF00), "ABGR");
    pixels_are(&p, 1, 1, 3, (const uint8_t[]){4, 3, 2});
    struct pen_error error = {.status = PEN_OK, .text = ""};
    size_t size = masked(0x3FF, 0xFFC00, 0x3FF00000);
    cr_assert_eq(picture_decode(file, size, "ten.bmp", NULL, &p, &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "ten.bmp") && strstr(error.text, "24 bits"), "%s", error.text);
}

/* 3 x 1 of `bits` a pixel with two colours; OS/2's header has 12 bytes and three bytes a colour. */
static size_t indexed(bool os2, uint8_t bits, const uint8_t row[4])
{
    const uint8_t colours[2][4] = {{1, 2, 3, 0}, {4, 5, 6, 0}};
    size_t header = os2 ? 12 : 40, entry = os2 ? 3 : 4, at = 14 + header;
    memset(file, 0, 128);
    memcpy(file, "BM", 2);
    file[14] = (uint8_t)header;
    file[18] = 3;
    file[os2 ? 20 : 22] = 1;
    file[os2 ? 22 : 26] = 1;
    file[os2 ? 24 : 28] = bits;
    file[46] = os2 ? file[46] : 2;
    for (size_t i = 0; i < 2; i++) {
        memcpy(file + at + i * entry, colours[i], entry);
    }
    file[10] = (uint8_t)(at + 2 * entry);
    memcpy(file + file[10], row, 4);
    return file[10] + 4u;
}

Test(decode, bmp_pixels_of_one_and_four_bits_begin_on_the_left)
{
    const uint8_t want[9] = {6, 5, 4, 3, 2, 1, 6, 5, 4};
    for (int os2 = 0; os2 < 2; os2++) {
        struct picture p = decoded(indexed(os2, 1, (const uint8_t[]){0xA0, 0, 0, 0}), "1 bit");
        pixels_are(&p, 3, 1, 3, want);
        p = decoded(indexed(os2, 4, (const uint8_t[]){0x10, 0x10, 0, 0}), "4 bits");
        pixels_are(&p, 3, 1, 3, want);
    }
    struct picture beyond = decoded(indexed(false, 4, (const uint8_t[]){0xF0, 0x10, 0, 0}), "no such colour");
    pixels_are(&beyond, 3, 1, 3, (const uint8_t[]){0, 0, 0, 3, 2, 1, 6, 5, 4});
}

Test(decode, photographs_on_disk)
{
    struct picture p = {0};
    if (access(PENSTOCK_SHARED "/images/parrot.jpg", R_OK) != 0) {
        cr_skip("no " PENSTOCK_SHARED "/images");
    }
    static const char *const names[] = {"parrot.jpg", "rocket.jpg", "coffee.png", "cat.bmp", "mnist_nine.bmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        struct pen_error error = {.status = PEN_OK, .text = ""};
        snprintf(path, sizeof path, "%s/images/%s", PENSTOCK_SHARED, names[i]);
        cr_assert_eq(picture_read(path, NULL, &p, &error), PEN_OK, "%s", error.text);
        cr_assert_geq(p.width, 28);
        picture_fini(&p);
    }
}

Test(decode, a_png_is_written_and_read_back)
{
    char path[] = "/tmp/penstock-picture.XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    uint8_t pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct picture p = {2, 2, 3, pixels}, back = {0};
    cr_assert_eq(picture_write_png(path, &p, NULL), PEN_OK);
    cr_assert_eq(picture_read(path, NULL, &back, NULL), PEN_OK);
    pixels_are(&back, 2, 2, 3, pixels);
    remove(path);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(picture_write_png("/nowhere/x.png", &p, &error), PEN_ERR_IO);
    cr_assert(strstr(error.text, "/nowhere/x.png") != NULL, "%s", error.text);
}
