/*
 * vulkan/ops/quantised.h - what the families of quantised operators share: scales and zero points that are constants, and tables of bytes made from them.
 *
 * real = (code - zero) * scale. Tables are made on the host in double, operation by operation as the reference has it: ties fall the same way on every device.
 * Threads: supports any; the rest one-at-a-time (part of a build).
 */
#ifndef VULKAN_QUANTISED_H
#define VULKAN_QUANTISED_H

#include "backend/vulkan/op.h"

struct vk_affine {
    double scale, zero;
};

bool vk_is_byte(const struct value *v); /* of u8 or i8; false when NULL */
/* One constant of this type. */
bool vk_one(const struct value *v, enum pen_dtype dtype);
/* Input `scale` is one constant f32 above 0, the next is missing or one constant of `dtype`. */
bool vk_affine_fits(const struct graph *g, const struct node *n, uint32_t scale, enum pen_dtype dtype);
/* The same with a scale of any sign. */
bool vk_affine_signed_fits(const struct graph *g, const struct node *n, uint32_t scale, enum pen_dtype dtype);
struct vk_affine vk_affine_of(const struct vk_build *b, uint32_t scale);
struct vk_affine vk_affine_read(const struct graph *g, const struct node *n, uint32_t scale);

/* Element i of constant bytes of this type. */
int32_t vk_byte_at(const void *data, enum pen_dtype dtype, size_t i);
/* saturate(round(real / scale) + zero) as a byte of `dtype`. */
uint8_t vk_quantised(const struct vk_affine *y, enum pen_dtype dtype, double real);
/* The value that byte `code` of `dtype` stands for. */
double vk_real(const struct vk_affine *x, enum pen_dtype dtype, uint8_t code);

/* y = table[x], all bytes, of `shape`; the table has 256. */
void vk_table_dispatch(struct vk_build *b, const struct shape *shape, uint32_t y, uint32_t x, uint32_t table);

#endif
