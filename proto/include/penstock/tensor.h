/*
 * penstock/tensor.h - a named, typed, dense view of tensor data in C order (row-major, little-endian).
 *
 * Plain data: the struct owns nothing. Who owns `name` and `data`, and for how long, is stated by each function that takes
 * or gives one.
 */
#ifndef PENSTOCK_TENSOR_H
#define PENSTOCK_TENSOR_H

#include "penstock/dtype.h"
#include "penstock/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* part of the public interface of every library that contains it */
#endif

#define PEN_MAX_RANK 8

/* A scalar has rank 0. In a signature a dimension of -1 is dynamic; in a tensor every dimension is >= 0. */
struct pen_tensor {
    const char *name;
    enum pen_dtype dtype;
    uint32_t rank;
    int64_t dims[PEN_MAX_RANK];
    const void *data;
    size_t bytes;
};

/* Product of dims with overflow check; PEN_ERR_TOO_LARGE on overflow, PEN_ERR_SHAPE on a negative dim or rank > 8. */
enum pen_status pen_tensor_elements(const struct pen_tensor *tensor, uint64_t *ret_elements);

/* Checks that bytes equals what dtype and dims need (for STRING: that the length prefixes add up). */
enum pen_status pen_tensor_check(const struct pen_tensor *tensor, struct pen_error *reterr);

/* Writes "1x3x224x224" ("scalar" for rank 0, "?" for -1) and returns text; cut to fit `bytes`. */
const char *pen_shape_text(const int64_t *dims, uint32_t rank, char *text, size_t bytes);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
