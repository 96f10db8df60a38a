/*
 * quantised.h - rows of operators on bytes: scales, zero points, single numbers. Integer results equal the reference's to the last bit (cross.h compares them so),
 * whatever the storage of floats.
 */
#ifndef TEST_VULKAN_QUANTISED_H
#define TEST_VULKAN_QUANTISED_H

#include "../xnnpack/cross.h"

#define F32 PEN_DTYPE_F32
#define I32 PEN_DTYPE_I32
#define I64 PEN_DTYPE_I64
#define U8  PEN_DTYPE_U8
#define I8  PEN_DTYPE_I8

static inline void scale(struct cross *c, int64_t count, float low, float high)
{
    cross_range(c, low, high);
    cross_input(c, F32, count > 1 ? 1 : 0, (int64_t[]){count}, true);
}

static inline void zero(struct cross *c, enum pen_dtype dtype, int64_t count)
{
    cross_input(c, dtype, count > 1 ? 1 : 0, (int64_t[]){count}, true);
}

static inline void number(struct cross *c, float value)
{
    cross_data(c, F32, 0, NULL, &value, true);
}

#endif
