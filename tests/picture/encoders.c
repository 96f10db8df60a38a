#include "encoders.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static void put(uint8_t *to, size_t bytes, bool big, uint32_t value)
{
    for (size_t i = 0; i < bytes; i++) {
        to[big ? bytes - 1 - i : i] = (uint8_t)(value >> (8 * i));
    }
}

size_t exif_make(uint8_t *to, bool big, uint32_t orientation)
{
    memset(to, 0, 26);
    memcpy(to, big ? "MM" : "II", 2);
    put(to + 2, 2, big, 42);
    put(to + 4, 4, big, 8);
    put(to + 8, 2, big, 1); /* entries */
    put(to + 10, 2, big, 0x0112);
    put(to + 12, 2, big, 3);
    put(to + 14, 4, big, 1);
    put(to + 18, 2, big, orientation);
    return 26;
}

struct sink {
    uint8_t *to;
    size_t used, room;
};

static void sink_write(png_structp png, png_bytep bytes, size_t count)
{
    struct sink *sink = png_get_io_ptr(png);
    cr_assert_leq(sink->used + count, sink->room);
    memcpy(sink->to + sink->used, bytes, count);
    sink->used += count;
}

static void sink_flush(png_structp png)
{
    (void)png;
}

size_t png_make(uint8_t *to, size_t room, const struct png_ask *a)
{
    struct sink sink = {to, 0, room};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    png_set_write_fn(png, &sink, sink_write, sink_flush);
    png_set_IHDR(png, info, a->width, a->height, a->depth, a->color, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (a->color == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, 2);
    }
    if (a->exif) {
        uint8_t copy[64];
        memcpy(copy, a->exif, a->exif_bytes);
        png_set_eXIf_1(png, info, a->exif_bytes, copy);
    }
    png_write_info(png, info);
    for (uint32_t y = 0; y < a->height; y++) {
        png_write_row(png, a->pixels + y * a->row_bytes);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return sink.used;
}

size_t jpeg_make(uint8_t *to, size_t room, const struct jpeg_ask *a)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long size = 0;
    uint8_t exif[32] = "Exif\0";
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &size);
    jpeg.image_width = a->width;
    jpeg.image_height = a->height;
    jpeg.input_components = (int)a->channels;
    jpeg.in_color_space = a->channels == 1 ? JCS_GRAYSCALE : a->channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    if (a->progressive) {
        jpeg_simple_progression(&jpeg);
    }
    jpeg_start_compress(&jpeg, TRUE);
    if (a->orientation) {
        jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif,
                          (unsigned)(6 + exif_make(exif + 6, a->big_endian, a->orientation)));
    }
    for (uint32_t y = 0; y < a->height; y++) {
        JSAMPROW row = (uint8_t *)(uintptr_t)(a->pixels + (size_t)y * a->width * a->channels); /* it only reads */
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    cr_assert_leq(size, room);
    memcpy(to, memory, size);
    free(memory);
    return size;
}

size_t bmp_make(uint8_t *b)
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
