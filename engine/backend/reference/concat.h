/*
 * concat.h - joining tensors along an axis, for Concat and ConcatFromSequence.
 *
 * Threads: any.
 */
#ifndef CONCAT_H
#define CONCAT_H

#include "backend/reference/raw.h"

enum pen_status concat_run(struct kernel_call *k, const struct rt_value *parts, uint32_t count, int32_t axis);

#endif
