/* decode_jpeg.c - through libjpeg: grey, YCbCr, RGB, CMYK and YCCK; baseline and progressive, with a cap on scans and on libjpeg's own memory. */
#include "picture_internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define ROWS      8   /* asked of libjpeg at a time */
#define SCANS_MAX 256 /* of a progressive file; each goes over all pixels. Encoders write about ten */

/* libjpeg reports by a call that must not return. */
struct reader {
    struct jpeg_error_mgr manager; /* first */
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    enum pen_status status;
    bool ended;                    /* no bytes are left */
    const struct row_taker *taker; /* takes the rows; NULL: they stay in the picture */
    uint8_t *rows; /* [ROWS, width, components] as libjpeg gives them, where that is not in the picture */
    uint8_t *rgb;  /* [width, channels] */
};

static enum pen_status status_of(int code)
{
    switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_ARITH_NOTIMPL:
        return PEN_ERR_UNSUPPORTED;
    case JERR_OUT_OF_MEMORY:
        return PEN_ERR_NO_MEMORY;
    case JERR_NO_BACKING_STORE:
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        return PEN_ERR_TOO_LARGE;
    default:
        return PEN_ERR_CORRUPT;
    }
}

static void stop(j_common_ptr jpeg)
{
    struct reader *reader = (struct reader *)(void *)jpeg->err;
    longjmp(reader->back, 1);
}

static void fail(j_common_ptr jpeg)
{
    struct reader *reader = (struct reader *)(void *)jpeg->err;
    reader->manager.format_message(jpeg, reader->text);
    reader->status = status_of(reader->manager.msg_code);
    stop(jpeg);
}

/*
 * Behind the end of the bytes libjpeg reads a made-up end mark; who then still wants data has a cut file, and would give a picture whose rest is grey, or, of several
 * scans, a coarse one. Other warnings are of files that everybody shows.
 */
static void warn(j_common_ptr jpeg, int level)
{
    struct reader *reader = (struct reader *)(void *)jpeg->err;
    if (level >= 0) {
        return;
    }
    const struct jpeg_decompress_struct *d = (const struct jpeg_decompress_struct *)(void *)jpeg;
    bool scans = d->progressive_mode || d->comps_in_scan < d->num_components;
    reader->ended |= jpeg->err->msg_code == JWRN_JPEG_EOF;
    if (reader->ended && (scans || jpeg->err->msg_code == JWRN_HIT_MARKER)) {
        snprintf(reader->text, sizeof reader->text, "it ends before its pixels do");
        reader->status = PEN_ERR_CORRUPT;
        stop(jpeg);
    }
}

static void count_scans(j_common_ptr jpeg)
{
    struct reader *reader = (struct reader *)(void *)jpeg->err;
    if (jpeg->is_decompressor && ((j_decompress_ptr)(void *)jpeg)->input_scan_number > SCANS_MAX) {
        snprintf(reader->text, sizeof reader->text, "it has more than %d scans", SCANS_MAX);
        reader->status = PEN_ERR_TOO_LARGE;
        stop(jpeg);
    }
}

/*
 * Without ink is 255, as in files by Adobe's programs; Pillow takes all files so, marked or not. R = white less cyan less black, in Pillow's integers.
 */
static void cmyk_to_rgb(const uint8_t *cmyk, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++) {
        uint32_t black = cmyk[4 * x + 3];
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t product = (255u - cmyk[4 * x + c]) * black + 128u, ink = ((product >> 8) + product) >> 8;
            rgb[3 * x + c] = (uint8_t)(black > ink ? black - ink : 0);
        }
    }
}

static uint32_t jpeg_orientation(const struct jpeg_decompress_struct *jpeg)
{
    static const uint8_t mark[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next) {
        if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof mark && memcmp(m->data, mark, sizeof mark) == 0) {
            return exif_orientation(m->data + sizeof mark, m->data_length - sizeof mark);
        }
    }
    return 1;
}

/* Decoding at 1/2, 1/4 or 1/8 gives fewer pixels at little cost; the largest of these steps that leaves enough. */
static void scale_choose(struct jpeg_decompress_struct *jpeg, const struct picture_options *options, bool turned)
{
    uint32_t width = turned ? options->least_height : options->least_width;
    uint32_t height = turned ? options->least_width : options->least_height;
    if (!width || !height) {
        return;
    }
    uint32_t across = jpeg->image_width / width, down = jpeg->image_height / height;
    uint32_t room = across < down ? across : down;
    jpeg->scale_num = 1;
    jpeg->scale_denom = room >= 8 ? 8 : room >= 4 ? 4 : room >= 2 ? 2 : 1;
    jpeg_calc_output_dimensions(jpeg);
}

static enum pen_status size_check(const struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                  struct pen_error *reterr)
{
    if (jpeg->num_components == 2) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s: a JPEG of two channels: convert it to grey or colour.",
                             s->name);
    }
    return picture_size_check(jpeg->image_width, jpeg->image_height, jpeg->num_components == 1 ? 1 : 3, s->name,
                              &s->limits, reterr);
}

/* Checks the caps before libjpeg takes memory of its own. */
static enum pen_status open_picture(struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                    struct reader *reader, struct picture_info *info, struct pen_error *reterr)
{
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(jpeg, TRUE);
    enum pen_status status = size_check(jpeg, s, reterr);
    if (status != PEN_OK) {
        return status;
    }
    *info = (struct picture_info){jpeg->image_width, jpeg->image_height, jpeg_orientation(jpeg)};
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : jpeg->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg->mem->max_memory_to_use = s->limits.memory_bytes < INT32_MAX ? (long)s->limits.memory_bytes : INT32_MAX;
    reader->progress.progress_monitor = count_scans;
    jpeg->progress = &reader->progress;
    jpeg_calc_output_dimensions(jpeg);
    scale_choose(jpeg, &s->options, !s->options.as_stored && info->orientation >= 5);
    return PEN_OK;
}

/* Rows of the picture, or, for a taker, a few rows that are used again. */
static enum pen_status rows_room(const struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                 struct reader *reader, struct picture *picture, struct pen_error *reterr)
{
    uint32_t channels = jpeg->num_components == 1 ? 1 : 3, width = jpeg->output_width;
    enum pen_status status = PEN_OK;
    *picture = (struct picture){width, jpeg->output_height, channels, NULL};
    if (!reader->taker) {
        status = picture_new(width, jpeg->output_height, channels, s->name, &s->limits, picture, reterr);
    }
    if (status == PEN_OK && (reader->taker || jpeg->num_components == 4)) {
        reader->rows = malloc((size_t)width * (size_t)jpeg->output_components * ROWS + ROW_SPARE);
        reader->rgb = malloc((size_t)width * channels + ROW_SPARE);
        status = reader->rows && reader->rgb
                     ? PEN_OK
                     : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for a row of pixels.", s->name);
    }
    return status;
}

static void row_pass(struct reader *reader, const struct jpeg_decompress_struct *jpeg, const uint8_t *row,
                     const struct picture *picture, uint32_t y)
{
    uint8_t *to = reader->taker ? reader->rgb : picture->pixels + (size_t)y * picture->width * picture->channels;
    if (jpeg->num_components == 4) {
        cmyk_to_rgb(row, picture->width, to);
    }
    if (reader->taker) {
        reader->taker->take(reader->taker->self, jpeg->num_components == 4 ? to : row);
    }
}

static void some_rows(struct jpeg_decompress_struct *jpeg, struct reader *reader, struct picture *picture)
{
    JSAMPROW at[ROWS];
    uint32_t y = jpeg->output_scanline, left = jpeg->output_height - y;
    uint32_t wanted = left < ROWS ? left : ROWS;
    size_t stride = (size_t)jpeg->output_width * (size_t)jpeg->output_components;
    for (uint32_t i = 0; i < wanted; i++) {
        at[i] = reader->rows ? reader->rows + i * stride : picture->pixels + (y + i) * stride;
    }
    uint32_t got = jpeg_read_scanlines(jpeg, at, wanted);
    for (uint32_t i = 0; reader->rows && i < got; i++) {
        row_pass(reader, jpeg, at[i], picture, y + i);
    }
}

/* In a function of its own: what setjmp returns to must not keep locals in registers. */
static enum pen_status read_rows(struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                 struct reader *reader, struct picture *picture, struct picture_info *info,
                                 struct pen_error *reterr)
{
    enum pen_status status = open_picture(jpeg, s, reader, info, reterr);
    if (status == PEN_OK && rows_are_wanted(s, info)) {
        reader->taker = s->taker;
        status = s->taker->begin(s->taker->self, jpeg->output_width, jpeg->output_height,
                                 jpeg->num_components == 1 ? 1 : 3, reterr);
    }
    status = status == PEN_OK ? rows_room(jpeg, s, reader, picture, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        some_rows(jpeg, reader, picture);
    }
    jpeg_finish_decompress(jpeg);
    return PEN_OK;
}

enum pen_status decode_jpeg(const struct picture_source *s, struct picture *ret_picture, struct picture_info *ret_info,
                            struct pen_error *reterr)
{
    struct jpeg_decompress_struct jpeg;
    struct reader reader = {.status = PEN_OK};
    enum pen_status status;
    jpeg.err = jpeg_std_error(&reader.manager);
    reader.manager.error_exit = fail;
    reader.manager.emit_message = warn;
    if (setjmp(reader.back) == 0) {
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, s->bytes, s->size);
        status = read_rows(&jpeg, s, &reader, ret_picture, ret_info, reterr);
    } else {
        status = pen_error_set(reterr, reader.status, "%s: %s JPEG: %s.", s->name,
                               reader.status == PEN_ERR_CORRUPT ? "broken" : "cannot read this", reader.text);
    }
    jpeg_destroy_decompress(&jpeg);
    free(reader.rows);
    free(reader.rgb);
    return status;
}
