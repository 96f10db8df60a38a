/* Scores of attention become pairs of bf16 that a product in AMX tiles takes. */
#include <immintrin.h>
#include <math.h>

#include "backend/xnnpack/own_math.h"
#include "backend/xnnpack/own_tiles.h"

#define LANES 16
#define ROUND 32 /* numbers of a tile's row */

static __mmask16 some_of(size_t n)
{
    return (__mmask16)(n >= LANES ? 0xffffu : (1u << n) - 1);
}

float own_tiles_largest(const float *x, size_t n)
{
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; i += LANES) { /* of NaN and a number the second operand stays: NaN alone gives NaN */
        const __mmask16 some = some_of(n - i);
        most = _mm512_mask_max_ps(most, some, most, _mm512_maskz_loadu_ps(some, x + i));
    }
    return _mm512_reduce_max_ps(most);
}

float own_tiles_shares(const float *x, uint32_t *pairs, size_t n, float shift)
{
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += ROUND) {
        _Alignas(64) float e[ROUND];
        const __m512 none = _mm512_set1_ps(-INFINITY); /* its share is 0 */
        const size_t behind = n - i > LANES ? n - i - LANES : 0;
        _mm512_store_ps(e, _mm512_mask_loadu_ps(none, some_of(n - i), x + i));
        _mm512_store_ps(e + LANES, _mm512_mask_loadu_ps(none, some_of(behind), x + i + LANES));
        _Pragma("omp simd") for (size_t k = 0; k < ROUND; k++)
        {
            e[k] = exp_share(e[k] - shift);
        }
        const __m512 low = _mm512_load_ps(e), high = _mm512_load_ps(e + LANES);
        sum = _mm512_add_ps(sum, _mm512_add_ps(low, high));
        _mm512_storeu_si512(pairs + i / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
    return _mm512_reduce_add_ps(sum);
}
