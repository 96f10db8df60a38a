/*
 * canvas.h - drawing on RGB pictures: smooth lines, discs, tinted areas, and texts in a font of 5 x 7 dots.
 *
 * Coordinates: x to the right, y down, in pixels; the centre of the first pixel is (0.5, 0.5). What lies outside is left out.
 * Threads: any (no state).
 */
#ifndef CANVAS_H
#define CANVAS_H

#include "picture.h"

struct ink {
    uint8_t r, g, b;
};

/* One of 12 colours that can be told apart, for classes and people. */
struct ink canvas_ink(unsigned index);

void canvas_line(struct picture *canvas, const double from[2], const double to[2], double width, struct ink ink);
void canvas_disc(struct picture *canvas, const double at[2], double radius, struct ink ink);
void canvas_box(struct picture *canvas, const double box[4], double width, struct ink ink);
/* One pixel, `cover` of 0 to 1. */
void canvas_tint(struct picture *canvas, long x, long y, double cover, struct ink ink);
/* The text on a field of the ink, its lower left corner at `at`, moved to lie within the picture; `dot`: pixels of a font's dot. Signs beyond ASCII are drawn as one box. */
void canvas_text(struct picture *canvas, const double at[2], const char *text, unsigned dot, struct ink ink);

/* Rows of a glyph of 5 x 7, the highest of 5 bits is the left dot. */
#define FONT_ROWS    7u
#define FONT_COLUMNS 5u
const uint8_t *font_glyph(unsigned char c);

#endif
