/*
 * broadcast.h - walks the output of a NumPy-style broadcast in blocks, keeping each input's place and step.
 *
 * Threads: one-at-a-time.
 */
#ifndef BROADCAST_H
#define BROADCAST_H

#include "backend/reference/kernels.h"

struct broadcast_input {
    const struct rt_value *v;
    int64_t stride[PEN_MAX_RANK]; /* of the merged dims; 0 where it repeats */
    int64_t offset;               /* of the current block */
    int64_t step;                 /* along the block: 0 or 1 */
};

struct broadcast {
    struct shape shape; /* of the output */
    struct broadcast_input *in;
    uint32_t count;
    struct shape merged; /* the same elements with as few dims as possible */
    int64_t index[PEN_MAX_RANK];
    int64_t at, total; /* output elements given so far; all */
};

/* Inputs first..first + count - 1 of the call. PEN_ERR_SHAPE when they do not fit together. */
enum pen_status broadcast_init(struct kernel_call *k, uint32_t first, uint32_t count, struct broadcast *b);
/* The next block: *ret_first output position, *ret_count <= ELEMENT_BLOCK elements; false at the end. */
bool broadcast_next(struct broadcast *b, int64_t *ret_first, int64_t *ret_count);

#endif
