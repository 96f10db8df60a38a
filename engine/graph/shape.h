/*
 * shape.h - dimensions of a value, concrete or not yet known, with checked arithmetic.
 *
 * Threads: any (pure functions).
 */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/dtype.h"
#include "penstock/status.h"
#include "penstock/tensor.h"

#define SHAPE_RANK_UNKNOWN (-1)
#define SHAPE_DIM_UNKNOWN  (-1)

/* Plain data. rank 0 is a scalar. */
struct shape {
    int32_t rank;              /* SHAPE_RANK_UNKNOWN, or 0..PEN_MAX_RANK */
    int64_t dim[PEN_MAX_RANK]; /* SHAPE_DIM_UNKNOWN, or >= 0 */
};

struct shape shape_unknown(void);
struct shape shape_scalar(void);
struct shape shape_of(int32_t rank, const int64_t *dims); /* rank <= PEN_MAX_RANK */
bool shape_known(const struct shape *s);                  /* rank and every dim known */
bool shape_equal(const struct shape *a, const struct shape *b);
int64_t shape_elements(const struct shape *s); /* product; -1 when unknown or beyond INT64_MAX */
/* Bytes of a known shape; PEN_ERR_TOO_LARGE on overflow or beyond `limit` (0 = none). */
enum pen_status shape_bytes(const struct shape *s, enum pen_dtype dtype, uint64_t limit, size_t *ret_bytes);
const char *shape_text(const struct shape *s, char *text, size_t bytes); /* "1x3x?x224", "scalar", "unknown" */
int32_t shape_axis(int64_t axis, int32_t rank); /* negative axes count from the end; -1 when out of range */
/* NumPy broadcasting of two shapes (unknown dims allowed); false when they cannot fit. */
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *ret);

#endif
