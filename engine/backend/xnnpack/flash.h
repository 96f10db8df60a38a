/*
 * flash.h - attention in blocks of queries and keys: y = softmax(cap(scale * q k^T), biased and masked) v, without a matrix of scores.
 *
 * Each row keeps its largest score so far, the sum of its exponentials and a sum of values; a block of keys whose largest score is larger scales both down
 * first (Milakov and Gimelshein 2018; Dao et al. 2022). Sums are f32. Keys and values are packed once for all queries.
 * In precision bf16 both products run in AMX tiles, where there are any. Results do not depend on the number of threads.
 * Threads: a call uses the run's team; the struct is read only.
 */
#ifndef XNNPACK_FLASH_H
#define XNNPACK_FLASH_H

#include "backend/attention_pattern.h"
#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/small_product.h"

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
    struct small_product
        product; /* set by flash_init; in AMX tiles queries, keys, shares and values are rounded to bf16 */
};

struct flash_data {
    const float *q, *k, *v;
    const void *terms[FLASH_TERMS];
    const int64_t *valid; /* [batch] keys that count; NULL = all */
    float *y;
};

void flash_init(struct flash *f, enum pen_precision precision, size_t threads);
size_t flash_scratch_bytes(const struct flash *f, size_t threads);
void flash_run(const struct flash *f, const struct flash_data *data, void *scratch, struct run *r);

#endif
