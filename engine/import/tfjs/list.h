/*
 * list.h - lists of tensors: what TensorList and TensorArray have in common.
 *
 * Threads: one-at-a-time.
 */
#ifndef TFJS_LIST_H
#define TFJS_LIST_H

#include "import/build/list.h"
#include "import/tfjs/reader.h"

uint32_t js_list_place(struct call *c, uint32_t index);               /* an input as int64 */
uint32_t js_list_split(struct call *c, uint32_t x, uint32_t lengths); /* a sequence of items of so many rows */
/* Row i of x becomes item indices[i] of `count` (int64 scalar). */
uint32_t js_list_scattered(struct call *c, uint32_t x, uint32_t indices, uint32_t count);

#endif
