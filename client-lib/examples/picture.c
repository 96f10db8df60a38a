#include "picture.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MAX 16384u

void picture_free(struct picture *p)
{
    free(p->rgb);
    *p = (struct picture){0};
}

static bool picture_new(unsigned width, unsigned height, struct picture *ret_picture)
{
    bool fits = width > 0 && height > 0 && width <= SIDE_MAX && height <= SIDE_MAX;
    uint8_t *rgb = fits ? malloc((size_t)width * height * 3) : NULL;
    *ret_picture = (struct picture){width, height, rgb};
    return rgb != NULL;
}

/* ---- files ---- */

static bool png_read(const char *file, struct picture *ret_picture)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&png, file)) {
        return false;
    }
    png.format = PNG_FORMAT_RGB;
    const png_color black = {0, 0, 0};
    if (!picture_new(png.width, png.height, ret_picture) ||
        !png_image_finish_read(&png, &black, ret_picture->rgb, 0, NULL)) {
        png_image_free(&png);
        picture_free(ret_picture);
        return false;
    }
    return true;
}

static uint32_t little(const uint8_t *at, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) {
        v |= (uint32_t)at[i] << (8 * i);
    }
    return v;
}

/* Uncompressed, 24 or 32 bits a pixel; rows from the bottom up unless the height is negative. */
static bool bmp_read(const char *file, struct picture *ret_picture)
{
    uint8_t head[54], row[SIDE_MAX * 4];
    FILE *f = fopen(file, "rb");
    bool ok = f && fread(head, 1, sizeof head, f) == sizeof head && head[0] == 'B' && head[1] == 'M';
    int32_t width = ok ? (int32_t)little(head + 18, 4) : 0, height = ok ? (int32_t)little(head + 22, 4) : 0;
    uint32_t bits = ok ? little(head + 28, 2) : 0, compression = ok ? little(head + 30, 4) : 0;
    unsigned rows = height < 0 ? 0u - (unsigned)height : (unsigned)height, bytes = bits / 8;
    ok = ok && (bits == 24 || bits == 32) && (compression == 0 || compression == 3) && width > 0 &&
         picture_new((unsigned)width, rows, ret_picture) && fseek(f, (long)little(head + 10, 4), SEEK_SET) == 0;
    size_t row_bytes = ((size_t)(ok ? width : 0) * bytes + 3) / 4 * 4;
    for (unsigned y = 0; ok && y < rows; y++) {
        uint8_t *to = ret_picture->rgb + (size_t)(height < 0 ? y : rows - 1 - y) * ret_picture->width * 3;
        ok = fread(row, 1, row_bytes, f) == row_bytes;
        for (unsigned x = 0; ok && x < ret_picture->width; x++) {
            for (unsigned c = 0; c < 3; c++) { /* blue first */
                to[3 * x + c] = row[(size_t)bytes * x + 2 - c];
            }
        }
    }
    if (f) {
        fclose(f);
    }
    if (!ok) {
        picture_free(ret_picture);
    }
    return ok;
}

bool picture_read(const char *file, struct picture *ret_picture)
{
    *ret_picture = (struct picture){0};
    bool ok = png_read(file, ret_picture) || bmp_read(file, ret_picture);
    if (!ok) {
        fprintf(stderr, "%s: cannot be read as a PNG or BMP picture\n", file);
    }
    return ok;
}

bool picture_write(const char *file, const struct picture *p)
{
    png_image png = {.version = PNG_IMAGE_VERSION, .width = p->width, .height = p->height, .format = PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&png, file, 0, p->rgb, 0, NULL)) {
        fprintf(stderr, "%s: cannot be written: %s\n", file, png.message);
        return false;
    }
    return true;
}

/* ---- sampling ---- */

struct view view_of_box(double left, double top, double width, double height, unsigned to_width, unsigned to_height)
{
    return (struct view){{width / to_width, 0, left, 0, height / to_height, top}};
}

struct view view_of_square(double centre_x, double centre_y, double side, double angle, unsigned to_side)
{
    double c = cos(angle) * side / to_side, s = sin(angle) * side / to_side, half = to_side / 2.0;
    return (struct view){{c, -s, centre_x - c * half + s * half, s, c, centre_y - s * half - c * half}};
}

void view_point(const struct view *v, double x, double y, double *ret_x, double *ret_y)
{
    *ret_x = v->m[0] * x + v->m[1] * y + v->m[2];
    *ret_y = v->m[3] * x + v->m[4] * y + v->m[5];
}

static double pixel_at(const struct picture *p, long x, long y, int channel)
{
    bool inside = x >= 0 && y >= 0 && x < (long)p->width && y < (long)p->height;
    return inside ? p->rgb[((size_t)y * p->width + (size_t)x) * 3 + (size_t)channel] : 0.0;
}

static double bilinear(const struct picture *p, double x, double y, int channel)
{
    double u = floor(x - 0.5), v = floor(y - 0.5), a = x - 0.5 - u, b = y - 0.5 - v;
    long i = (long)u, j = (long)v;
    return (1 - b) * ((1 - a) * pixel_at(p, i, j, channel) + a * pixel_at(p, i + 1, j, channel)) +
           b * ((1 - a) * pixel_at(p, i, j + 1, channel) + a * pixel_at(p, i + 1, j + 1, channel));
}

void picture_sample(const struct picture *from, const struct view *v, unsigned width, unsigned height, uint8_t *to)
{
    double scale = hypot(v->m[0], v->m[3]);
    int n = scale > 1 ? (int)ceil(scale) : 1; /* samples a side: none is skipped when the picture shrinks */
    for (unsigned i = 0; i < width * height; i++) {
        double sum[3] = {0, 0, 0};
        for (int k = 0; k < n * n; k++) {
            double x, y;
            view_point(v, i % width + (k % n + 0.5) / n, i / width + (k / n + 0.5) / n, &x, &y);
            for (int c = 0; c < 3; c++) {
                sum[c] += bilinear(from, x, y, c);
            }
        }
        for (int c = 0; c < 3; c++) {
            to[3 * i + (unsigned)c] = (uint8_t)(sum[c] / (n * n) + 0.5);
        }
    }
}

/* ---- drawing ---- */

/* Lays the colour over the pixel; cover is 0 to 1. */
static void blend(struct picture *p, long x, long y, double cover, struct colour c)
{
    if (x < 0 || y < 0 || x >= (long)p->width || y >= (long)p->height || cover <= 0) {
        return;
    }
    uint8_t *at = p->rgb + ((size_t)y * p->width + (size_t)x) * 3;
    const uint8_t ink[3] = {c.r, c.g, c.b};
    cover = cover > 1 ? 1 : cover;
    for (int i = 0; i < 3; i++) {
        at[i] = (uint8_t)(at[i] + (ink[i] - at[i]) * cover + 0.5);
    }
}

/* Every pixel near the line is covered by how far its centre lies within; a disc is a line without length. */
void picture_line(struct picture *p, double x0, double y0, double x1, double y1, double width, struct colour c)
{
    double half = width / 2, dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
    long left = (long)floor(fmin(x0, x1) - half) - 1, right = (long)ceil(fmax(x0, x1) + half) + 1;
    long top = (long)floor(fmin(y0, y1) - half) - 1, bottom = (long)ceil(fmax(y0, y1) + half) + 1;
    left = left < 0 ? 0 : left;
    top = top < 0 ? 0 : top;
    for (long y = top; y <= bottom && y < (long)p->height; y++) {
        for (long x = left; x <= right && x < (long)p->width; x++) {
            double px = (double)x + 0.5 - x0, py = (double)y + 0.5 - y0;
            double t = length > 0 ? fmin(fmax((px * dx + py * dy) / length, 0), 1) : 0;
            blend(p, x, y, half + 0.5 - hypot(px - t * dx, py - t * dy), c);
        }
    }
}

void picture_disc(struct picture *p, double x, double y, double radius, struct colour c)
{
    picture_line(p, x, y, x, y, 2 * radius, c);
}
