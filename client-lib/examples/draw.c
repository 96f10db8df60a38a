#include "draw.h"

#include <math.h>
#include <stdio.h>

/* ---- files ---- */

bool draw_open(const char *file, struct picture *ret_picture)
{
    struct pen_error error = {.text = ""};
    struct picture any = {0};
    enum pen_status status = picture_read(file, NULL, &any, &error);
    status = status == PEN_OK ? picture_convert(&any, 3, ret_picture, &error) : status;
    picture_fini(&any);
    if (status != PEN_OK) {
        fprintf(stderr, "%s\n", error.text);
    }
    return status == PEN_OK;
}

bool draw_save(const char *file, const struct picture *p)
{
    struct pen_error error = {.text = ""};
    bool ok = picture_write_png(file, p, &error) == PEN_OK;
    if (!ok) {
        fprintf(stderr, "%s\n", error.text);
    }
    return ok;
}

/* ---- sampling ---- */

struct view view_of_box(double left, double top, double width, double height, unsigned to_width, unsigned to_height)
{
    return (struct view){{width / to_width, 0, left, 0, height / to_height, top}};
}

void view_point(const struct view *v, double x, double y, double *ret_x, double *ret_y)
{
    *ret_x = v->m[0] * x + v->m[1] * y + v->m[2];
    *ret_y = v->m[3] * x + v->m[4] * y + v->m[5];
}

static double pixel_at(const struct picture *p, long x, long y, int channel)
{
    bool inside = x >= 0 && y >= 0 && x < (long)p->width && y < (long)p->height;
    return inside ? p->pixels[((size_t)y * p->width + (size_t)x) * 3 + (size_t)channel] : 0.0;
}

static double bilinear(const struct picture *p, double x, double y, int channel)
{
    double u = floor(x - 0.5), v = floor(y - 0.5), a = x - 0.5 - u, b = y - 0.5 - v;
    long i = (long)u, j = (long)v;
    return (1 - b) * ((1 - a) * pixel_at(p, i, j, channel) + a * pixel_at(p, i + 1, j, channel)) +
           b * ((1 - a) * pixel_at(p, i, j + 1, channel) + a * pixel_at(p, i + 1, j + 1, channel));
}

void draw_sample(const struct picture *from, const struct view *v, unsigned width, unsigned height, uint8_t *to)
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
    uint8_t *at = p->pixels + ((size_t)y * p->width + (size_t)x) * 3;
    const uint8_t ink[3] = {c.r, c.g, c.b};
    cover = cover > 1 ? 1 : cover;
    for (int i = 0; i < 3; i++) {
        at[i] = (uint8_t)(at[i] + (ink[i] - at[i]) * cover + 0.5);
    }
}

/* Every pixel near the line is covered by how far its centre lies within; a disc is a line without length. */
void draw_line(struct picture *p, double x0, double y0, double x1, double y1, double width, struct colour c)
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

void draw_disc(struct picture *p, double x, double y, double radius, struct colour c)
{
    draw_line(p, x, y, x, y, 2 * radius, c);
}
