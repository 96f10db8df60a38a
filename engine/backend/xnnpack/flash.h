/*
 * flash.h - attention in blocks of queries and keys: y = softmax(cap(scale * q k^T), biased and masked) v, without a matrix of scores.
 *
 * Each row keeps its largest score so far, the sum of its exponentials and a sum of values; a block of keys whose largest score is larger scales both down
 * first (Milakov and Gimelshein 2018; Dao et al. 2022). Sums are f32. Keys and values are packed once for all queries.
 * Results do not depend on the number of threads.
 * Threads: a call uses the run's team; the struct is read only.
 */
#ifndef XNNPACK_FLASH_H
#define XNNPACK_FLASH_H

#include "backend/xnnpack/emit.h"

/* Element (batch, head, row, column) is at the sum of index * stride; 0 = the same for all. */
struct flash_side {
    size_t batch, head, row, col;
};

enum flash_term_kind {
    FLASH_ADD,       /* f32: added */
    FLASH_KEEP,      /* bytes: where 0, the score becomes `fill` */
    FLASH_DROP,      /* bytes: where not 0, the score becomes `fill` */
    FLASH_ADD_UNLESS /* bytes: where 0, `fill` is added */
};

/* Something over the scores [batch, heads, queries, keys]. */
struct flash_term {
    enum flash_term_kind kind;
    size_t step[4]; /* elements; 0 = broadcast; of keys: 0 or 1 */
    size_t keys;    /* that it has values for; the others are hidden */
    float fill;
};

#define FLASH_TERMS 4

struct flash {
    size_t batch, heads, kv_heads, queries, keys, size, value_size;
    struct flash_side q, k, v, y; /* k, v: head is of kv_heads */
    float scale, softcap;         /* softcap 0 = none */
    bool causal;
    int64_t causal_offset; /* query i sees keys j <= i + offset */
    bool hidden_zero;      /* a row that sees no key is 0; else NaN, as a soft-max of nothing is */
    struct flash_term terms[FLASH_TERMS];
    uint32_t term_count;
    size_t block; /* set by flash_init: queries of one unit of work */
};

struct flash_data {
    const float *q, *k, *v;
    const void *terms[FLASH_TERMS];
    const int64_t *valid; /* [batch] keys that count; NULL = all */
    float *y;
};

void flash_init(struct flash *f, size_t threads);
size_t flash_scratch_bytes(const struct flash *f, size_t threads);
void flash_run(const struct flash *f, const struct flash_data *data, void *scratch, struct run *r);
/* The steps of a term of this shape over [batch, heads, queries, keys]; false when it does not broadcast. It may have fewer keys. */
bool flash_term_init(struct flash_term *t, const struct flash *f, const struct shape *shape);

#endif
