/*
 * cutout.h - squares of a picture around objects, turned so that two points of the object are level, as the input of a model that takes pictures.
 *
 * Threads: any (pure functions over the caller's memory).
 */
#ifndef CUTOUT_H
#define CUTOUT_H

#include "ensemble_plan.h"
#include "picture.h"
#include "served.h"

/* The picture of a file, RGB and upright, within the limits of the model's `picture`. Free it with cutout_close. */
enum pen_status cutout_open(const uint8_t *bytes, size_t size, const struct served *model, struct picture *ret_picture,
                            struct pen_error *reterr);
void cutout_close(struct picture *picture); /* fine for one of zeros */

/*
 * The square around a box (left, top, right, bottom, in the picture's pixels), as wide as crop->scale times the box's longer side. points: [n][3] x, y of the
 * object, NULL = not turned. The map leads from pixels of the model's input to those of the picture.
 */
struct answer_map cutout_map(const struct ensemble_plan_crop *crop, const float box[4], const float *points,
                             const struct picture *picture, uint32_t width, uint32_t height);

/*
 * Samples an RGB picture into the numbers of the model's input (config.picture of `served`): the mean of bilinear samples, as many as pixels fall together; black outside
 * of the picture. to: one row of the input.
 */
void cutout_sample(const struct picture *picture, const struct answer_map *map, const struct served *served, void *to);

#endif
