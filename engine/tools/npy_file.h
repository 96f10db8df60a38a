/*
 * npy_file.h - NumPy's .npy, format 1.0 to 3.0 (numpy/lib/format.py), C order only.
 *
 * Threads: any.
 */
#ifndef NPY_FILE_H
#define NPY_FILE_H

#include "run/rt_arena.h"

/* Data in arena memory. */
enum pen_status npy_read(const char *path, struct rt_arena *arena, struct pen_tensor *ret, struct pen_error *reterr);
/* f16, f32, f64, bool and the integers of 8..64 bits; bf16 and the rest are written as f32 would not be honest: PEN_ERR_UNSUPPORTED. */
enum pen_status npy_write(const char *path, const struct pen_tensor *t, struct pen_error *reterr);

#endif
