#include "image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

enum pen_status image_new(uint32_t width, uint32_t height, uint32_t channels, const char *name, struct image *ret_image,
                          struct pen_error *reterr)
{
    if (!width || !height || (uint64_t)width * height > IMAGE_PIXELS_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s: %ux%u pixels; 1 to %u are taken.", name, width, height,
                             IMAGE_PIXELS_MAX);
    }
    uint8_t *pixels = malloc((size_t)width * height * channels);
    if (!pixels) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for %ux%u pixels.", name, width, height);
    }
    *ret_image = (struct image){width, height, channels, pixels};
    return PEN_OK;
}

void image_fini(struct image *image)
{
    free(image->pixels);
    image->pixels = NULL;
}

static enum pen_status decode_png(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                                  struct pen_error *reterr)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    const png_color white = {255, 255, 255}; /* behind transparent parts */
    struct image image;
    if (!png_image_begin_read_from_memory(&png, bytes, size)) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken PNG: %s.", name, png.message);
    }
    png.format = png.format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    enum pen_status status =
        image_new(png.width, png.height, png.format == PNG_FORMAT_RGB ? 3 : 1, name, &image, reterr);
    if (status != PEN_OK) {
        png_image_free(&png);
        return status;
    }
    if (!png_image_finish_read(&png, &white, image.pixels, 0, NULL)) {
        image_fini(&image);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken PNG: %s.", name, png.message);
    }
    *ret_image = image;
    return PEN_OK;
}

/* libjpeg reports by a call that must not return. */
struct jpeg_failure {
    struct jpeg_error_mgr manager;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
};

static void jpeg_fail(j_common_ptr jpeg)
{
    struct jpeg_failure *failure = (struct jpeg_failure *)jpeg->err;
    failure->manager.format_message(jpeg, failure->text);
    longjmp(failure->back, 1);
}

static void jpeg_quiet(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

/* In a function of its own: what setjmp returns to must not keep locals in registers. */
static enum pen_status jpeg_read(struct jpeg_decompress_struct *jpeg, const char *name, struct image *image,
                                 struct pen_error *reterr)
{
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    enum pen_status status =
        image_new(jpeg->output_width, jpeg->output_height, jpeg->num_components == 1 ? 1 : 3, name, image, reterr);
    while (status == PEN_OK && jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = image->pixels + (size_t)jpeg->output_scanline * image->width * image->channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    if (status == PEN_OK) {
        jpeg_finish_decompress(jpeg);
    }
    return status;
}

static enum pen_status decode_jpeg(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                                   struct pen_error *reterr)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_failure failure;
    struct image image = {0, 0, 0, NULL};
    enum pen_status status;
    jpeg.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = jpeg_fail;
    failure.manager.emit_message = jpeg_quiet;
    if (setjmp(failure.back) == 0) {
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, bytes, size);
        status = jpeg_read(&jpeg, name, &image, reterr);
    } else {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken JPEG: %s.", name, failure.text);
    }
    jpeg_destroy_decompress(&jpeg);
    if (status == PEN_OK) {
        *ret_image = image;
    } else {
        image_fini(&image);
    }
    return status;
}

enum format { FORMAT_NONE, FORMAT_PNG, FORMAT_JPEG, FORMAT_BMP };

static enum format format_of(const uint8_t *bytes, size_t size)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xFF, 0xD8, 0xFF}, bmp[] = {'B', 'M'};
    return size < 16                               ? FORMAT_NONE
           : memcmp(bytes, png, sizeof png) == 0   ? FORMAT_PNG
           : memcmp(bytes, jpeg, sizeof jpeg) == 0 ? FORMAT_JPEG
           : memcmp(bytes, bmp, sizeof bmp) == 0   ? FORMAT_BMP
                                                   : FORMAT_NONE;
}

bool image_is(const uint8_t *bytes, size_t size)
{
    return format_of(bytes, size) != FORMAT_NONE;
}

enum pen_status image_decode(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                             struct pen_error *reterr)
{
    switch (format_of(bytes, size)) {
    case FORMAT_PNG:
        return decode_png(bytes, size, name, ret_image, reterr);
    case FORMAT_JPEG:
        return decode_jpeg(bytes, size, name, ret_image, reterr);
    case FORMAT_BMP:
        return image_decode_bmp(bytes, size, name, ret_image, reterr);
    default:
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: neither PNG, JPEG nor BMP.", name);
    }
}
