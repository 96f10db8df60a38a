/*
 * list.h - lists of tensors as sequences: what TensorList and TensorArray have in common.
 *
 * Threads: one-at-a-time.
 */
#ifndef TFJS_LIST_H
#define TFJS_LIST_H

#include "import/tfjs/reader.h"

uint32_t js_list_place(struct call *c, uint32_t index);                       /* an input as int64 */
uint32_t js_list_zeros(struct call *c, uint32_t count, enum pen_dtype dtype); /* that many scalars */
uint32_t js_list_apart(struct call *c, uint32_t x);                           /* x [n, ...] -> n items [...] */
uint32_t js_list_split(struct call *c, uint32_t x, uint32_t lengths);         /* items of so many rows */
uint32_t js_list_set(struct call *c, uint32_t list, uint32_t at, uint32_t item);
uint32_t js_list_stacked(struct call *c, uint32_t list, bool new_axis);
/* Row i of x becomes item indices[i] of `count` (int64 scalar). */
uint32_t js_list_scattered(struct call *c, uint32_t x, uint32_t indices, uint32_t count);

#endif
