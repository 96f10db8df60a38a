/*
 * attention_pattern.h - attention that a file spells out: MatMul, factors, masks, Softmax, MatMul, with the transposes around them read as strides; and what a kernel that
 * works in blocks of queries and keys is told of it.
 *
 * A factor may stand before the product, on queries or keys; a mask is an Add, or a Where that puts a number in the place of hidden scores; a Where that makes
 * NaN 0 may follow the soft-max, as for rows that see nothing.
 * Threads: one-at-a-time (part of a plan, or of an exec).
 */
#ifndef ATTENTION_PATTERN_H
#define ATTENTION_PATTERN_H

#include "backend/finder.h"

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

/* full: batch, heads, queries, keys. The steps of a term of this shape; false when it does not broadcast. It may have fewer keys. */
bool flash_term_init(struct flash_term *t, const size_t full[4], const struct shape *shape);

/* A value as it lies in memory: axis i of what is read is axis[i] of it. */
struct seen_value {
    uint32_t value;
    int32_t rank, axis[4];
};

#define PATTERN_MEMBERS 24

struct attention_pattern {
    struct seen_value q, k, v, y; /* k as [batch, heads, size, keys] */
    float scale;
    uint32_t term_count;
    struct flash_term terms[FLASH_TERMS]; /* kind and fill, in the order in which they apply */
    uint32_t term_values[FLASH_TERMS];
    bool zero;                                   /* NaN becomes 0 behind the soft-max */
    const struct node *members[PATTERN_MEMBERS]; /* the last one gives the result */
    uint32_t member_count;
};

/* Around this soft-max. False: there is none; the finder knows why where one was near. Takes no node. */
bool attention_pattern_find(struct finder *f, const struct node *softmax, struct attention_pattern *ret);

/* The sizes of one bucket. kv_heads: 1 when all heads share keys and values. */
struct attention_sizes {
    size_t batch, heads, kv_heads, queries, keys, size, value_size;
    struct flash_side q, k, v, y; /* k as [batch, heads, keys, size] */
    struct flash_term terms[FLASH_TERMS];
};

/* NULL: they fit each other; else why not. */
const char *attention_pattern_sizes(const struct attention_pattern *a, const struct shape_env *env,
                                    struct attention_sizes *ret);

#endif
