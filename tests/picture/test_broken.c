/* What is refused, and how: other formats, cut and damaged files, bombs, files that are none. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#include "encoders.h"
#include "picture.h"

static uint8_t file[1 << 20];

static void refused(const void *bytes, size_t size, enum pen_status want, const char *says)
{
    struct picture p = {0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    enum pen_status status = picture_decode(bytes, size, "x.pic", NULL, &p, &error);
    cr_assert_eq(status, want, "%s: %s", pen_status_name(status), error.text);
    cr_assert(strstr(error.text, "x.pic") && strstr(error.text, says), "%s", error.text);
}

Test(broken, other_formats_are_called_by_their_names)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {
        {"GIF89a\1\0\1\0\0\0\0;", 14, "is a GIF: convert it to PNG or JPEG"},
        {"II*\0\x08\0\0\0", 8, "is a TIFF picture"},
        {"MM\0*\0\0\0\x08", 8, "is a TIFF picture"},
        {"\0\0\0\x18"
         "ftypheic\0\0\0\0",
         16, "is a HEIC picture"},
        {"\0\0\0\x20"
         "ftypavif\0\0\0\0",
         16, "is an AVIF picture"},
        {"\0\0\0\x0CJXL \r\n\x87\n", 12, "is a JPEG XL picture"},
        {"\0\0\0\x0CjP  \r\n\x87\n", 12, "is a JPEG 2000 picture"},
        {"P6\n2 2\n255\n", 11, "is a PBM, PGM or PPM picture"},
        {"8BPS\0\1", 6, "is a Photoshop file"},
        {"qoif\0\0\0\1", 8, "is a QOI picture"},
        {"<?xml version=\"1.0\"?><svg/>", 27, "is an SVG drawing"},
        {"%PDF-1.7", 8, "is a PDF document"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(picture_probe((const uint8_t *)cases[i].bytes, cases[i].size), PICTURE_OTHER, "%zu", i);
        refused(cases[i].bytes, cases[i].size, PEN_ERR_UNSUPPORTED, cases[i].says);
    }
    refused("RIFF\x24\0\0\0WEBPVP8 ", 16, PEN_ERR_CORRUPT, "broken WebP");
    refused("no picture at all", 17, PEN_ERR_INVALID, "is no picture");
    refused("", 0, PEN_ERR_INVALID, "is no picture");
    cr_assert_eq(picture_probe((const uint8_t *)"BMore text that begins so", 25), PICTURE_NONE);
    cr_assert_null(picture_format_name((const uint8_t *)"text", 4));
}

static size_t made(int kind)
{
    static uint8_t pixels[40 * 40 * 3];
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 37 % 251);
    }
    struct png_ask png = {8, 8, 8, PNG_COLOR_TYPE_RGB, pixels, 24, NULL, 0};
    struct jpeg_ask jpeg = {40, 40, 3, 6, kind == 3, false, pixels};
    return kind == 0   ? bmp_make(file)
           : kind == 1 ? png_make(file, sizeof file, &png)
                       : jpeg_make(file, sizeof file, &jpeg);
}

Test(broken, cut_and_damaged_files_are_errors_never_crashes)
{
    struct picture p = {0};
    for (int kind = 0; kind < 4; kind++) {
        size_t size = made(kind), step = kind < 2 ? 1 : 13;
        for (size_t cut = 0; cut < size; cut += step) {
            uint8_t *copy = malloc(cut + 1);
            memcpy(copy, file, cut);
            if (picture_decode(copy, cut, "cut", NULL, &p, NULL) == PEN_OK) { /* end marks are not needed */
                cr_assert(kind != 0 && size - cut <= 14, "kind %d, %zu of %zu bytes", kind, cut, size);
                picture_fini(&p);
            }
            free(copy);
        }
        for (size_t at = 2; at < size; at += step) {
            uint8_t *copy = malloc(size);
            memcpy(copy, file, size);
            copy[at] ^= 0xFF;
            if (picture_decode(copy, size, "flipped", NULL, &p, NULL) == PEN_OK) {
                picture_fini(&p);
            }
            free(copy);
        }
    }
}

Test(broken, half_a_jpeg_is_no_picture)
{
    size_t size = made(2);
    refused(file, size / 2, PEN_ERR_CORRUPT, "ends before its pixels do");
}

Test(broken, bombs_are_refused_before_they_take_memory)
{
    uint8_t line[32] = {0};
    struct png_ask ask = {200, 1, 1, PNG_COLOR_TYPE_GRAY, line, 25, NULL, 0};
    size_t size = png_make(file, sizeof file, &ask);
    struct picture p = {0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct picture_limits few = {.pixels = 199}, small = {.memory_bytes = 100}, brief = {.file_bytes = 40};
    cr_assert_eq(picture_decode(file, size, "wide.png", &few, &p, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "200x1 pixels") != NULL, "%s", error.text);
    cr_assert_eq(picture_decode(file, size, "wide.png", &small, &p, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "100 bytes of memory") != NULL, "%s", error.text);
    cr_assert_eq(picture_decode(file, size, "wide.png", &brief, &p, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "at most 40") != NULL, "%s", error.text);
    size = made(3);
    uint8_t *frame = NULL; /* a progressive JPEG that says 65500 x 65500 */
    for (size_t i = 0; i + 9 < size && !frame; i++) {
        frame = file[i] == 0xFF && file[i + 1] == 0xC2 ? file + i : NULL;
    }
    cr_assert_not_null(frame);
    memcpy(frame + 5, "\xFF\xDC\xFF\xDC", 4);
    refused(file, size, PEN_ERR_TOO_LARGE, "65500x65500");
    memcpy(frame + 5, "\x17\x70\x17\x70", 4); /* 6000 x 6000: libjpeg would keep 6 bytes a pixel beside ours */
    struct picture_limits tight = {.memory_bytes = 6000 * 6000 * 3 + 1};
    cr_assert_eq(picture_decode(file, size, "deep.jpg", &tight, &p, &error), PEN_ERR_TOO_LARGE, "%s", error.text);
}

/* A scan says little and costs a walk over all pixels: the first one's header again and again. */
Test(broken, a_jpeg_of_many_scans_is_refused)
{
    size_t size = made(3), start = 0, end = 0;
    for (size_t i = 0; i + 2 < size && !end; i++) {
        if (file[i] == 0xFF && file[i + 1] == 0xDA) {
            end = start ? i : 0;
            start = start ? start : i;
        }
    }
    cr_assert(start && end > start);
    uint8_t *many = malloc(start + 1000 * (end - start));
    memcpy(many, file, start);
    for (size_t i = 0; i < 1000; i++) {
        memcpy(many + start + i * (end - start), file + start, end - start);
    }
    refused(many, start + 1000 * (end - start), PEN_ERR_TOO_LARGE, "scans");
    free(many);
}

Test(broken, files_that_are_none)
{
    char folder[] = "/tmp/penstock-picture.XXXXXX", fifo[64];
    struct picture p = {0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_assert_eq(picture_read(fifo, NULL, &p, &error), PEN_ERR_IO);
    cr_assert(strstr(error.text, "no regular file") != NULL, "%s", error.text);
    cr_assert_eq(picture_read(folder, NULL, &p, &error), PEN_ERR_IO);
    cr_assert_eq(picture_read("/nowhere/x.png", NULL, &p, &error), PEN_ERR_NOT_FOUND);
    remove(fifo);
    rmdir(folder);
}
