/*
 * infer_util.h - what shape rules read and write with: guarded against omitted inputs, unwanted outputs and overflow.
 *
 * Threads: any (pure functions).
 */
#ifndef INFER_UTIL_H
#define INFER_UTIL_H

#include "graph/infer.h"

/* Of an omitted input: unknown, NONE. */
const struct shape *infer_shape_of(const struct infer *c, uint32_t index);
enum pen_dtype infer_dtype_of(const struct infer *c, uint32_t index);
/* Rank of an input, SHAPE_RANK_UNKNOWN when not known. */
int32_t infer_rank(const struct infer *c, uint32_t index);

/* Writes output `index` when the node has it. */
void infer_put(struct infer *c, uint32_t index, enum pen_dtype dtype, const struct shape *shape);
void infer_put_kind(struct infer *c, uint32_t index, enum value_kind kind, enum pen_dtype dtype);

/* An attribute list of exactly `count` integers, or `def` for each when absent; false when its length is another or an item is below `least`. */
bool infer_list(const struct infer *c, enum attr_key key, int32_t count, int64_t def, int64_t least, int64_t *items);
/* One integer from an input that holds a single one: 1 = read, 0 = not known, -1 = not a single integer. */
int infer_int(const struct infer *c, uint32_t index, int64_t *ret_item);
bool infer_number(const struct infer *c, uint32_t index, double *ret); /* a known scalar of any numeric type */
/* Axes from input `index` (or all when absent, unless none_is_empty), made positive, checked: 1 = read, 0 = not known, -1 = out of range or double. */
int infer_axes(const struct infer *c, uint32_t index, int32_t rank, bool *ret_marked, int64_t *ret_axes,
               size_t *ret_count);
/* Checked a * b + k for sizes; SHAPE_DIM_UNKNOWN when an operand is unknown. False on overflow or a negative result. */
bool infer_mul_add(int64_t a, int64_t b, int64_t k, int64_t *ret);
/* dtype from an integer attribute, `def` when absent; NONE when out of range. */
enum pen_dtype infer_dtype_attr(const struct infer *c, enum attr_key key, enum pen_dtype def);
/* One integer of known data, u64 beyond i64 as its largest; false for dtypes that hold none. */
bool infer_integer_at(enum pen_dtype dtype, const void *data, size_t index, int64_t *ret);
struct shape infer_unknown_of_rank(int32_t rank);
/* Two dims that must agree: false on a contradiction, else *ret is the known one. */
bool infer_same_dim(int64_t a, int64_t b, int64_t *ret);

#endif
