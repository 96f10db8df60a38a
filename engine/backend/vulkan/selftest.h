/*
 * selftest.h - small products on the device against plain C, before a precision and its families of kernels are used.
 *
 * A family that computes wrong is left out, and the fact selftest.vulkan.FAMILY says so; without the simple one the precision is not offered. On a device
 * that computes on the CPU only what its rules choose is tried.
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_SELFTEST_H
#define VULKAN_SELFTEST_H

#include "backend/backend.h"

/* Products of floats, then of bytes. PEN_ERR_UNAVAILABLE with a sentence when the device computes wrong in every way, or in the one that was asked for. */
enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr);
/* selftest_cm2.c: matrices of a workgroup, each tile for itself; a wrong one is left out: part of the former. */
enum pen_status vk_selftest_cm2(struct backend *b, struct pen_error *reterr);
/* selftest_shape.c: one product by the kernels that the backend is set to; *worst grows to its error. name: for the seam of tests (verdicts.h). */
struct vk_product_shape;
enum pen_status vk_selftest_shape(struct backend *b, const struct vk_product_shape *shape, const char *name,
                                  double *worst, struct pen_error *reterr);
/* selftest_attention.c: attention by cooperative matrices: part of the former. */
enum pen_status vk_selftest_attention(struct backend *b, struct pen_error *reterr);
/* Windows, Winograd's method, depthwise filters, pools, codes of few bits: part of the former. What the device computes wrong is left out (vk_kernels). */
enum pen_status vk_selftest_ops(struct backend *b, struct pen_error *reterr);
/* Of bytes alone: part of the former. */
enum pen_status vk_selftest_bytes(struct backend *b, struct pen_error *reterr);

#endif
