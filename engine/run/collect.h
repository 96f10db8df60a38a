/*
 * collect.h - scan outputs of Loop and Scan: per-turn tensors gathered in the run's arena, then stacked along a new axis.
 *
 * Threads: one-at-a-time.
 */
#ifndef COLLECT_H
#define COLLECT_H

#include "backend/reference/kernel.h"

struct collect_item {
    struct collect_item *next;
    void *data;
};

struct collect {
    struct collect_item *first, *last;
    uint64_t count;
    enum pen_dtype dtype;
    struct shape shape; /* of one item */
    size_t bytes;
};

size_t element_bytes(enum pen_dtype dtype); /* 0 for sub-byte types; strings are struct string_view */
/* A deep enough copy for later turns: tensor bytes are copied into memory; sequences are copied item by item. */
enum pen_status value_copy(struct kernel_call *k, const struct rt_value *from, struct rt_value *ret);
enum pen_status collect_add(struct collect *c, struct kernel_call *k, const struct rt_value *item);
/* axis: where the new dim goes (0..rank); reverse: last item first. Without items the output has `empty_dtype` and shape [0, ...]. */
enum pen_status collect_stack(const struct collect *c, struct kernel_call *k, uint32_t output, int32_t axis,
                              bool reverse, const struct value *declared);

#endif
