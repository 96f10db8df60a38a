/* decode_jpeg.c - through libjpeg: grey, YCbCr, RGB, CMYK and YCCK; baseline and progressive, with a cap on scans and on libjpeg's own memory. */
#include "picture_internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define SCANS_MAX 256 /* of a progressive file; each goes over all pixels. Encoders write about ten */

/* libjpeg reports by a call that must not return. */
struct reader {
    struct jpeg_error_mgr manager; /* first */
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    enum pen_status status;
    bool ended;   /* no bytes are left */
    uint8_t *row; /* of four channels */
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

/* Without ink is 255 in files by Adobe's programs, 0 in others. R = white less cyan less black. */
static void cmyk_to_rgb(const uint8_t *cmyk, uint32_t width, bool adobe, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++) {
        uint32_t black = adobe ? cmyk[4 * x + 3] : 255u - cmyk[4 * x + 3];
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t ink = adobe ? cmyk[4 * x + c] : 255u - cmyk[4 * x + c];
            rgb[3 * x + c] = (uint8_t)((ink * black + 127u) / 255u);
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

static enum pen_status open_picture(struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                    struct reader *reader, struct picture *picture, struct pen_error *reterr)
{
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(jpeg, TRUE);
    uint32_t channels = jpeg->num_components == 1 ? 1 : 3;
    enum pen_status status =
        picture_new(jpeg->image_width, jpeg->image_height, channels, s->name, &s->limits, picture, reterr);
    if (status != PEN_OK) {
        return status; /* before libjpeg takes memory of its own */
    }
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : jpeg->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg->mem->max_memory_to_use = s->limits.memory_bytes < INT32_MAX ? (long)s->limits.memory_bytes : INT32_MAX;
    reader->progress.progress_monitor = count_scans;
    jpeg->progress = &reader->progress;
    reader->row = jpeg->num_components == 4 ? malloc((size_t)jpeg->image_width * 4) : NULL;
    return jpeg->num_components == 4 && !reader->row
               ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for a row of pixels.", s->name)
               : PEN_OK;
}

/* In a function of its own: what setjmp returns to must not keep locals in registers. */
static enum pen_status read_rows(struct jpeg_decompress_struct *jpeg, const struct picture_source *s,
                                 struct reader *reader, struct picture *picture, uint32_t *ret_orientation,
                                 struct pen_error *reterr)
{
    enum pen_status status = open_picture(jpeg, s, reader, picture, reterr);
    if (status != PEN_OK) {
        return status;
    }
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = picture->pixels + (size_t)jpeg->output_scanline * picture->width * picture->channels;
        JSAMPROW row = reader->row ? reader->row : to;
        if (jpeg_read_scanlines(jpeg, &row, 1) == 1 && reader->row) {
            cmyk_to_rgb(reader->row, picture->width, jpeg->saw_Adobe_marker, to);
        }
    }
    *ret_orientation = jpeg_orientation(jpeg); /* what is saved goes with the end */
    jpeg_finish_decompress(jpeg);
    return PEN_OK;
}

enum pen_status decode_jpeg(const struct picture_source *s, struct picture *ret_picture, uint32_t *ret_orientation,
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
        status = read_rows(&jpeg, s, &reader, ret_picture, ret_orientation, reterr);
    } else {
        status = pen_error_set(reterr, reader.status, "%s: %s JPEG: %s.", s->name,
                               reader.status == PEN_ERR_CORRUPT ? "broken" : "cannot read this", reader.text);
    }
    jpeg_destroy_decompress(&jpeg);
    free(reader.row);
    return status;
}
