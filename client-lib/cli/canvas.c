#include "canvas.h"

#include <math.h>

struct ink canvas_ink(unsigned index)
{
    static const struct ink inks[] = {{80, 220, 120}, {64, 160, 255},  {255, 128, 32},  {240, 240, 80},
                                      {230, 90, 200}, {90, 230, 230},  {255, 90, 90},   {160, 120, 255},
                                      {180, 220, 60}, {255, 180, 190}, {140, 170, 140}, {200, 150, 90}};
    return inks[index % (sizeof inks / sizeof *inks)];
}

void canvas_tint(struct picture *canvas, long x, long y, double cover, struct ink ink)
{
    if (x < 0 || y < 0 || x >= (long)canvas->width || y >= (long)canvas->height || !(cover > 0)) {
        return;
    }
    uint8_t *at = canvas->pixels + ((size_t)y * canvas->width + (size_t)x) * 3;
    const uint8_t colours[3] = {ink.r, ink.g, ink.b};
    cover = cover > 1 ? 1 : cover;
    for (int i = 0; i < 3; i++) {
        at[i] = (uint8_t)(at[i] + (colours[i] - at[i]) * cover + 0.5);
    }
}

static long within(double value, uint32_t limit)
{
    return !(value > 0) ? 0 : value > limit ? (long)limit : (long)value;
}

/* A pixel near the line is covered by how far its centre lies within; a disc is a line without length. */
void canvas_line(struct picture *canvas, const double from[2], const double to[2], double width, struct ink ink)
{
    double half = width / 2, dx = to[0] - from[0], dy = to[1] - from[1], length = dx * dx + dy * dy;
    if (!isfinite(length)) {
        return;
    }
    long left = within(fmin(from[0], to[0]) - half - 1, canvas->width);
    long right = within(fmax(from[0], to[0]) + half + 2, canvas->width);
    long top = within(fmin(from[1], to[1]) - half - 1, canvas->height);
    long bottom = within(fmax(from[1], to[1]) + half + 2, canvas->height);
    for (long y = top; y < bottom; y++) {
        for (long x = left; x < right; x++) {
            double px = (double)x + 0.5 - from[0], py = (double)y + 0.5 - from[1];
            double t = length > 0 ? fmin(fmax((px * dx + py * dy) / length, 0), 1) : 0;
            canvas_tint(canvas, x, y, half + 0.5 - hypot(px - t * dx, py - t * dy), ink);
        }
    }
}

void canvas_disc(struct picture *canvas, const double at[2], double radius, struct ink ink)
{
    canvas_line(canvas, at, at, 2 * radius, ink);
}

void canvas_box(struct picture *canvas, const double box[4], double width, struct ink ink)
{
    const double corners[5][2] = {
        {box[0], box[1]}, {box[2], box[1]}, {box[2], box[3]}, {box[0], box[3]}, {box[0], box[1]}};
    for (int i = 0; i < 4; i++) {
        canvas_line(canvas, corners[i], corners[i + 1], width, ink);
    }
}

/* ---- texts ---- */

/* Bytes that continue a sign of UTF-8 are no signs. */
static size_t signs_of(const char *text)
{
    size_t count = 0;
    for (; *text; text++) {
        count += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return count;
}

static void field_fill(struct picture *canvas, long x, long y, long width, long height, struct ink ink)
{
    for (long j = 0; j < height; j++) {
        for (long i = 0; i < width; i++) {
            canvas_tint(canvas, x + i, y + j, 1, ink);
        }
    }
}

static void glyph_draw(struct picture *canvas, long x, long y, const uint8_t *rows, long dot, struct ink ink)
{
    for (unsigned j = 0; j < FONT_ROWS; j++) {
        for (unsigned i = 0; i < FONT_COLUMNS; i++) {
            if (rows[j] >> (FONT_COLUMNS - 1 - i) & 1) {
                field_fill(canvas, x + (long)i * dot, y + (long)j * dot, dot, dot, ink);
            }
        }
    }
}

void canvas_text(struct picture *canvas, const double at[2], const char *text, unsigned dot, struct ink ink)
{
    const struct ink black = {0, 0, 0};
    size_t signs = signs_of(text), room = canvas->width / ((FONT_COLUMNS + 1) * dot) + 1;
    signs = signs > room ? room : signs;
    long width = (long)((signs * (FONT_COLUMNS + 1) + 1) * dot), height = (long)((FONT_ROWS + 2) * dot);
    double left = fmin(at[0], (double)canvas->width - (double)width);
    long x = within(left, canvas->width), y = within(at[1] - (double)height, canvas->height);
    field_fill(canvas, x, y, width, height, ink);
    x += (long)dot;
    for (size_t drawn = 0; *text && drawn < signs; text++) {
        if (((unsigned char)*text & 0xC0) != 0x80) {
            glyph_draw(canvas, x, y + (long)dot, font_glyph((unsigned char)*text), (long)dot, black);
            x += (long)((FONT_COLUMNS + 1) * dot);
            drawn++;
        }
    }
}
