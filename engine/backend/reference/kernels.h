/*
 * kernels.h - prototypes of all kernels (from kernels.def) and what kernels share: optional inputs, integer inputs, axes, blocks of elements.
 *
 * Threads: any; each call touches only its kernel_call.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include "backend/reference/element_io.h"
#include "backend/reference/kernel.h"

#define KERNEL(op, fn, types) enum pen_status fn(struct kernel_call *k);
#include "backend/reference/kernels.def"
#undef KERNEL

bool kernel_has(const struct kernel_call *k, uint32_t index);   /* input present */
bool kernel_wants(const struct kernel_call *k, uint32_t index); /* output exists and is used */
enum pen_status kernel_cancelled(struct kernel_call *k);        /* PEN_OK, or CANCELLED / DEADLINE */

/* Reads an integer tensor (axes, sizes, pads ...): at most `room` items, else PEN_ERR_INVALID. An omitted input gives *ret_count = 0. */
enum pen_status kernel_ints(struct kernel_call *k, uint32_t index, int64_t *items, size_t room, size_t *ret_count);
/* Axes from input `index` or, when it is absent or empty, all axes if `all`. Normalised, each once, else PEN_ERR_INVALID. */
enum pen_status kernel_axes(struct kernel_call *k, uint32_t index, int32_t rank, bool all, bool *ret_is_axis);
enum pen_status kernel_axis(struct kernel_call *k, int64_t axis, int32_t rank, int32_t *ret_axis);
double kernel_scalar(const struct kernel_call *k, uint32_t index, double def); /* first element, def when omitted */

/* Product of dims [from, to). */
int64_t dims_product(const struct shape *s, int32_t from, int32_t to);
/* Row-major strides in elements. */
void dims_strides(const struct shape *s, int64_t *ret_strides);

/* Same as kernel_output with input 0's dtype and shape. */
enum pen_status kernel_output_like(struct kernel_call *k, uint32_t index, uint32_t input);

/* Double copies of a whole input in scratch memory. PEN_ERR_NO_MEMORY when the cap is reached. */
enum pen_status kernel_doubles(struct kernel_call *k, uint32_t index, double **ret);

#endif
