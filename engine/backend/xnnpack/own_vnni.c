/* Products of unsigned and signed bytes with the processor's own instruction: four of them to a 32-bit sum, nothing saturates. */
#include "backend/xnnpack/own_int.h"

#include <immintrin.h>

#define TILE_LANES 16
#define TILE_MR    12

typedef int32_t vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline __attribute__((always_inline)) vi dot(vi sum, uint32_t x, vi w)
{
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32((int)x), (__m512i)w);
}

#include "backend/xnnpack/own_int_tile.inc"

void own_int_product_vnni(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    tiles(x, x_stride, w, words, m, y);
}
