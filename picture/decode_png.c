/* decode_png.c - through libpng: every kind of PNG to grey or RGB of 8 bits; and a PNG written by it. */
#include "picture_internal.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#define CHUNK_BYTES_MAX (8u << 20) /* of a text or a profile, which nobody reads here */

/* libpng reports by a call that must not return. */
struct reader {
    const struct picture_source *source;
    size_t at; /* bytes read */
    png_structp png;
    png_infop header;
    char text[128];
    const struct row_taker *taker; /* takes the rows; NULL: they stay in the picture */
    uint8_t *row;                  /* [width, channels and alpha], where that is not in the picture */
    uint8_t *plain;                /* [width, channels] for a taker */
    uint8_t *layers;               /* [height, width, channels and alpha] of an interlaced picture with alpha */
    bool alpha;
};

static uint32_t u32_big(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Of the chunk eXIf, wherever it stands. Chunks: length, name, data, checksum; the first begins at 8. */
static uint32_t png_orientation(const uint8_t *bytes, size_t size)
{
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        uint32_t length = u32_big(bytes + at);
        if (length > size - at - 12 || memcmp(bytes + at + 4, "IEND", 4) == 0) {
            break;
        }
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0) {
            return exif_orientation(bytes + at + 8, length);
        }
        at += (size_t)length + 12;
    }
    return 1;
}

static void fail(png_structp png, png_const_charp text)
{
    struct reader *reader = png_get_error_ptr(png);
    strncpy(reader->text, text, sizeof reader->text - 1);
    longjmp(png_jmpbuf(png), 1);
}

static void warn(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void bytes_give(png_structp png, png_bytep to, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);
    if (count > reader->source->size - reader->at) {
        png_error(png, "it ends before its pixels do");
    }
    memcpy(to, reader->source->bytes + reader->at, count);
    reader->at += count;
}

static bool coloured(const struct picture_options *options)
{
    const uint8_t *b = options->background;
    return b[0] != b[1] || b[1] != b[2];
}

/* Palettes, few bits and 16 bits become 8 bits a channel. Of 16 the high ones stay; no gamma is applied. */
static void kind_choose(struct reader *reader)
{
    png_structp png = reader->png;
    png_byte kind = png_get_color_type(png, reader->header);
    bool clear = png_get_valid(png, reader->header, PNG_INFO_tRNS) != 0;
    reader->alpha = (kind & PNG_COLOR_MASK_ALPHA) || clear;
    png_set_strip_16(png);
    png_set_packing(png);
    if (reader->alpha && reader->source->options.alpha_dropped) {
        if (kind == PNG_COLOR_TYPE_PALETTE) {
            png_set_palette_to_rgb(png);
        } else if (kind == PNG_COLOR_TYPE_GRAY) {
            png_set_expand_gray_1_2_4_to_8(png);
        }
        png_set_strip_alpha(png);
        reader->alpha = false;
    } else {
        png_set_expand(png);
        if (coloured(&reader->source->options) && reader->alpha) {
            png_set_gray_to_rgb(png); /* grey on a colour is a colour */
        }
    }
}

/* Lays a row with alpha on the background. */
static void row_compose(const struct picture_options *options, uint32_t channels, const uint8_t *from, uint32_t width,
                        uint8_t *to)
{
    const uint8_t *b = options->background;
    for (uint32_t x = 0; x < width; x++, from += channels + 1, to += channels) {
        for (uint32_t c = 0; c < channels; c++) {
            to[c] = (uint8_t)laid_over(from[c], from[channels], b[c]);
        }
    }
}

static void row_done(struct reader *reader, const struct picture *picture, uint8_t *row, uint32_t y)
{
    uint8_t *plain = reader->taker ? reader->plain : picture->pixels + (size_t)y * picture->width * picture->channels;
    if (reader->alpha) {
        row_compose(&reader->source->options, picture->channels, row, picture->width, plain);
    }
    if (reader->taker) {
        reader->taker->take(reader->taker->self, reader->alpha ? plain : row);
    }
}

static void rows_read(struct reader *reader, const struct picture *picture)
{
    size_t stride = (size_t)picture->width * picture->channels;
    for (uint32_t y = 0; y < picture->height; y++) {
        uint8_t *row = reader->row ? reader->row : picture->pixels + y * stride;
        png_read_row(reader->png, row, NULL);
        row_done(reader, picture, row, y);
    }
}

/* Each of the seven passes goes over the rows and fills in some of their pixels. */
static void passes_read(struct reader *reader, const struct picture *picture, int passes)
{
    size_t stride = (size_t)picture->width * (picture->channels + reader->alpha);
    uint8_t *rows = reader->layers ? reader->layers : picture->pixels;
    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < picture->height; y++) {
            png_read_row(reader->png, rows + y * stride, NULL);
        }
    }
    for (uint32_t y = 0; reader->layers && y < picture->height; y++) {
        row_done(reader, picture, rows + y * stride, y);
    }
}

static enum pen_status room_take(struct reader *reader, struct picture *picture, bool interlaced,
                                 struct pen_error *reterr)
{
    const struct picture_source *s = reader->source;
    uint32_t stored = picture->channels + reader->alpha;
    size_t line = (size_t)picture->width * stored;
    enum pen_status status = reader->taker ? PEN_OK
                                           : picture_new(picture->width, picture->height, picture->channels, s->name,
                                                         &s->limits, picture, reterr);
    if (status == PEN_OK && interlaced && reader->alpha) {
        status = picture_size_check(picture->width, picture->height, stored, s->name, &s->limits, reterr);
        reader->layers = status == PEN_OK ? malloc(line * picture->height) : NULL;
    }
    if (reader->taker || (reader->alpha && !interlaced)) {
        reader->row = malloc(line + ROW_SPARE);
        reader->plain = malloc(line + ROW_SPARE);
    }
    bool whole = (!(interlaced && reader->alpha) || reader->layers) &&
                 (!(reader->taker || (reader->alpha && !interlaced)) || (reader->row && reader->plain));
    return status != PEN_OK || whole ? status
                                     : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for its rows.", s->name);
}

/* In a function of its own: what setjmp returns to must not keep locals in registers. */
static enum pen_status picture_fill(struct reader *reader, struct picture *picture, struct picture_info *info,
                                    struct pen_error *reterr)
{
    const struct picture_source *s = reader->source;
    png_read_info(reader->png, reader->header);
    uint32_t width = png_get_image_width(reader->png, reader->header);
    uint32_t height = png_get_image_height(reader->png, reader->header);
    enum pen_status status = picture_size_check(width, height, 3, s->name, &s->limits, reterr);
    if (status != PEN_OK) {
        return status;
    }
    kind_choose(reader);
    int passes = png_set_interlace_handling(reader->png);
    png_read_update_info(reader->png, reader->header);
    uint32_t channels = png_get_channels(reader->png, reader->header) - reader->alpha;
    *info = (struct picture_info){width, height, png_orientation(s->bytes, s->size)};
    *picture = (struct picture){width, height, channels, NULL};
    if (passes == 1 && rows_are_wanted(s, info)) {
        reader->taker = s->taker;
        status = s->taker->begin(s->taker->self, width, height, channels, reterr);
    }
    status = status == PEN_OK ? room_take(reader, picture, passes > 1, reterr) : status;
    if (status == PEN_OK && passes > 1) {
        passes_read(reader, picture, passes);
    } else if (status == PEN_OK) {
        rows_read(reader, picture);
    }
    return status;
}

static bool reader_open(struct reader *reader)
{
    reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, fail, warn);
    reader->header = reader->png ? png_create_info_struct(reader->png) : NULL;
    if (!reader->header) {
        return false;
    }
    png_set_user_limits(reader->png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(reader->png, CHUNK_BYTES_MAX);
    png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_crc_action(reader->png, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);
    png_set_read_fn(reader->png, reader, bytes_give);
    return true;
}

enum pen_status decode_png(const struct picture_source *s, struct picture *ret_picture, struct picture_info *ret_info,
                           struct pen_error *reterr)
{
    struct reader reader = {.source = s};
    enum pen_status status;
    if (!reader_open(&reader)) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory to read a PNG.", s->name);
    } else if (setjmp(png_jmpbuf(reader.png)) == 0) {
        status = picture_fill(&reader, ret_picture, ret_info, reterr);
    } else {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken PNG: %s.", s->name, reader.text);
    }
    png_destroy_read_struct(&reader.png, &reader.header, NULL);
    free(reader.row);
    free(reader.plain);
    free(reader.layers);
    return status;
}

enum pen_status picture_write_png(const char *path, const struct picture *picture, struct pen_error *reterr)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = picture->width,
                     .height = picture->height,
                     .format = picture->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&png, path, 0, picture->pixels, 0, NULL)) {
        return pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write it: %s.", path, png.message);
    }
    return PEN_OK;
}
