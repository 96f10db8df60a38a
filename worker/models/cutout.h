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

#include <stdatomic.h>

/* The picture of a job whose step will cut squares out of it, decoded before a slot takes the job. */
struct uncut {
    struct digest model; /* of the model whose limits it was decoded by */
    struct picture picture;
    size_t bytes; /* counted in *held */
    atomic_uint_fast64_t *held;
    uint64_t took_us;
};

/*
 * files: the file of one picture, STRING [1] or uint8. held, limit: what all jobs may hold together. NULL: it is no picture, too large, or there is no room; the step finds
 * the same fault, or decodes it then.
 */
struct uncut *uncut_new(const struct served *model, const struct pen_tensor *files, atomic_uint_fast64_t *held,
                        uint64_t limit, uint64_t now_us);
void uncut_free(struct uncut *uncut); /* NULL is fine */

/* The one file of the tensor: SHAPE with a sentence when it is none. */
enum pen_status cutout_file(const struct pen_tensor *tensor, const uint8_t **ret_bytes, size_t *ret_size,
                            struct pen_error *reterr);

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
