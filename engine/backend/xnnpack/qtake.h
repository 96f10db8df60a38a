/*
 * qtake.h - sums of a product of bytes on their way to the result, where a tile does not make bytes of them itself: sums as they are, floats, and bytes of sums
 * that need more than 32 bits.
 *
 * Threads: any; rows of one call are written by it alone.
 */
#ifndef XNNPACK_QTAKE_H
#define XNNPACK_QTAKE_H

#include "backend/xnnpack/qdense.h"

/* Where the sums of one panel go. */
struct qtaker {
    const struct qdense *d;
    const struct qweights *w;
    void *y;      /* the whole result */
    size_t group; /* columns of the groups before */
    size_t row0, col;
    const int32_t *row_sums; /* from row0 on; looked at with w->w_zero_any only */
};

/* Whether such results have to be taken as sums. */
bool qtake_needed(const struct qdense *d, const struct qweights *w);
/* An int_take_fn: rows from `row` on, counted from row0. taker: a struct qtaker. sums: without anything added. */
void qtake(const void *taker, const int32_t *sums, size_t row, size_t rows);
/* The tile's sums go to the taker, which has to live as long. */
void qtake_from(struct int_tile *t, const struct qtaker *taker);

#endif
