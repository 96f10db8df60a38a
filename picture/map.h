/*
 * map.h - where a point of a model's input lies in the picture that it was made of.
 *
 * Steps (resize, letterbox, crop) only scale and shift each axis, so two numbers per axis say everything:
 * input = original * scale + offset. Coordinates are those of edges: 0 is the left or upper edge of the first pixel, `width` the right edge
 * of the last one; the centre of pixel i is i + 0.5.
 *
 * The worker has one map per row of a job whose input came as pictures (`struct task`, `maps`: [rows]; NULL when the job brought a plain
 * tensor). A letterbox has an offset above 0, a crop one below 0.
 *
 * Threads: any (plain data).
 */
#ifndef PICTURE_MAP_H
#define PICTURE_MAP_H

#include <stdint.h>

struct picture_map {
    uint32_t width, height; /* of the original picture in pixels, upright: its Exif orientation is applied */
    uint32_t input_width, input_height; /* of the model's input in pixels */
    double scale_x, scale_y;            /* input pixels per original pixel, above 0 */
    double offset_x, offset_y;          /* where the original's left and upper edge lie in the input, in input pixels */
};

/* From the input's pixels to the original's. The result may lie outside of the picture: a letterbox's border does. */
static inline double picture_map_x(const struct picture_map *map, double x)
{
    return (x - map->offset_x) / map->scale_x;
}

static inline double picture_map_y(const struct picture_map *map, double y)
{
    return (y - map->offset_y) / map->scale_y;
}

#endif
