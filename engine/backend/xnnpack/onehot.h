/*
 * onehot.h - which row of OneHot an index turns on.
 *
 * Threads: any.
 */
#ifndef XNNPACK_ONEHOT_H
#define XNNPACK_ONEHOT_H

#include <stddef.h>

#include "penstock/dtype.h"

/* Element i of indices of i64, i32 or f32 among `depth` rows, negative ones from the end; depth when there is none. */
size_t one_hot_row(enum pen_dtype dtype, const void *indices, size_t i, size_t depth);

#endif
