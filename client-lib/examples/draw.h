/*
 * draw.h - RGB pictures for the examples: sampled into a model's size, drawn on. Files are the picture library's (picture.h).
 *
 * Coordinates: x to the right, y down, in pixels; the centre of the first pixel is (0.5, 0.5).
 * Threads: any (no state).
 */
#ifndef DRAW_H
#define DRAW_H

#include "picture.h"

struct colour {
    uint8_t r, g, b;
};

/* An RGB picture from and to a file; false with a sentence on stderr. */
bool draw_open(const char *file, struct picture *ret_picture);
bool draw_save(const char *file, const struct picture *p);

/* Where the points of a sampled picture lie in the one it was taken from: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
struct view {
    double m[6];
};
struct view view_of_box(double left, double top, double width, double height, unsigned to_width, unsigned to_height);
void view_point(const struct view *v, double x, double y, double *ret_x, double *ret_y);

/* Samples `from` into to[height, width, 3]: the mean of bilinear samples, as many as pixels fall together. Outside of the picture it is black. */
void draw_sample(const struct picture *from, const struct view *v, unsigned width, unsigned height, uint8_t *to);

void draw_line(struct picture *p, double x0, double y0, double x1, double y1, double width, struct colour c);
void draw_disc(struct picture *p, double x, double y, double radius, struct colour c);

#endif
