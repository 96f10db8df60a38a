/*
 * run_picture.h - pictures as inputs of `run`: decoded, resized as `penstock submit` does, and put into the type and the order that the model takes.
 *
 * Threads: any.
 */
#ifndef RUN_PICTURE_H
#define RUN_PICTURE_H

#include "run/rt_arena.h"

/*
 * Fills the data of `t`, whose dims say NCHW or NHWC by where the channel count (1 or 3) stands. u8 as they are, i8 less 128, f32, f16 and bf16: pixel * scale. Data in arena
 * memory. bytes, size: the file `path`.
 */
enum pen_status picture_into(const uint8_t *bytes, size_t size, const char *path, double scale, struct rt_arena *arena,
                             struct pen_tensor *t, struct pen_error *reterr);
/* It is a picture by its first bytes, and of a format that this build reads. */
bool picture_known(const uint8_t *bytes, size_t size);

#endif
