#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/case.h"
#include "tools/npy_file.h"

#define PIXELS_MAX ((uint64_t)1 << 28)

struct image {
    unsigned char *pixels;
    uint32_t width, height, channels;
};

static enum pen_status png_decode(const char *path, const void *bytes, size_t size, struct image *image,
                                  struct rt_arena *arena, struct pen_error *reterr)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&png, bytes, size)) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: %s", path, png.message);
    }
    png.format = image->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    image->width = png.width;
    image->height = png.height;
    image->pixels = (uint64_t)png.width * png.height <= PIXELS_MAX ? rt_arena_alloc(arena, PNG_IMAGE_SIZE(png)) : NULL;
    if (image->pixels == NULL || !png_image_finish_read(&png, NULL, image->pixels, 0, NULL)) {
        png_image_free(&png);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: %s", path,
                             image->pixels == NULL ? "too large" : png.message);
    }
    return PEN_OK;
}

struct jpeg_fault {
    struct jpeg_error_mgr manager; /* first */
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
};

static void jpeg_fault_exit(j_common_ptr info)
{
    struct jpeg_fault *fault = (struct jpeg_fault *)(void *)info->err;
    fault->manager.format_message(info, fault->text);
    longjmp(fault->jump, 1);
}

static void jpeg_quiet(j_common_ptr info, int level)
{
    (void)info;
    (void)level;
}

static enum pen_status jpeg_decode(const char *path, const void *bytes, size_t size, struct image *image,
                                   struct rt_arena *arena, struct pen_error *reterr)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_fault fault;
    jpeg.err = jpeg_std_error(&fault.manager);
    fault.manager.error_exit = jpeg_fault_exit;
    fault.manager.emit_message = jpeg_quiet;
    if (setjmp(fault.jump) != 0) {
        jpeg_destroy_decompress(&jpeg);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: %s", path, fault.text);
    }
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, size);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg);
    image->width = jpeg.output_width;
    image->height = jpeg.output_height;
    size_t row = (size_t)image->width * image->channels;
    image->pixels =
        (uint64_t)image->width * image->height <= PIXELS_MAX ? rt_arena_alloc(arena, row * image->height) : NULL;
    if (image->pixels == NULL) {
        jpeg_destroy_decompress(&jpeg);
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s: too large", path);
    }
    while (jpeg.output_scanline < jpeg.output_height) {
        JSAMPROW line = image->pixels + row * jpeg.output_scanline;
        jpeg_read_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    return PEN_OK;
}

/* Bilinear with half-pixel centres: source = (x + 0.5) * in / out - 0.5. */
static void resize(const struct image *from, struct image *to)
{
    float sx = (float)from->width / (float)to->width;
    float sy = (float)from->height / (float)to->height;
    for (uint32_t y = 0; y < to->height; y++) {
        float fy = ((float)y + 0.5f) * sy - 0.5f;
        fy = fy < 0 ? 0 : fy;
        uint32_t y0 = (uint32_t)fy < from->height - 1 ? (uint32_t)fy : from->height - 1;
        uint32_t y1 = y0 + 1 < from->height ? y0 + 1 : y0;
        for (uint32_t x = 0; x < to->width; x++) {
            float fx = ((float)x + 0.5f) * sx - 0.5f;
            fx = fx < 0 ? 0 : fx;
            uint32_t x0 = (uint32_t)fx < from->width - 1 ? (uint32_t)fx : from->width - 1;
            uint32_t x1 = x0 + 1 < from->width ? x0 + 1 : x0;
            for (uint32_t c = 0; c < to->channels; c++) {
                const unsigned char *p = from->pixels;
                size_t row = (size_t)from->width * from->channels;
                float a = (float)p[y0 * row + x0 * from->channels + c];
                float b = (float)p[y0 * row + x1 * from->channels + c];
                float d = (float)p[y1 * row + x0 * from->channels + c];
                float e = (float)p[y1 * row + x1 * from->channels + c];
                float wx = fx - (float)x0;
                float wy = fy - (float)y0;
                float v = (a + (b - a) * wx) * (1 - wy) + (d + (e - d) * wx) * wy;
                to->pixels[((size_t)y * to->width + x) * to->channels + c] = (unsigned char)(v + 0.5f);
            }
        }
    }
}

enum pen_status image_read(const char *path, uint32_t channels, int64_t height, int64_t width, struct rt_arena *arena,
                           struct pen_tensor *ret, struct pen_error *reterr)
{
    void *bytes = NULL;
    size_t size = 0;
    struct image image = {.channels = channels};
    enum pen_status status = case_file(arena, path, &bytes, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const unsigned char *b = bytes;
    if (size > 8 && memcmp(b, "\x89PNG", 4) == 0) {
        status = png_decode(path, bytes, size, &image, arena, reterr);
    } else if (size > 3 && b[0] == 0xFF && b[1] == 0xD8) {
        status = jpeg_decode(path, bytes, size, &image, arena, reterr);
    } else {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s is neither PNG nor JPEG", path);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct image scaled = {.width = (uint32_t)(width > 0 ? width : image.width),
                           .height = (uint32_t)(height > 0 ? height : image.height),
                           .channels = channels};
    if (scaled.width != image.width || scaled.height != image.height) {
        scaled.pixels = rt_arena_alloc(arena, (size_t)scaled.width * scaled.height * channels);
        if (scaled.pixels == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to resize %s", path);
        }
        resize(&image, &scaled);
        image = scaled;
    }
    *ret = (struct pen_tensor){.name = ret->name,
                               .dtype = PEN_DTYPE_U8,
                               .rank = 3,
                               .dims = {image.height, image.width, channels},
                               .data = image.pixels,
                               .bytes = (size_t)image.width * image.height * channels};
    return PEN_OK;
}
