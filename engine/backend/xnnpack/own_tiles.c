/* Products of pairs of bf16 in AMX tiles, with sums in f32. */
#include "backend/xnnpack/own_tiles.h"

#include <immintrin.h>
#include <string.h>

/* What LDTILECFG reads. */
struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_shapes) == 64, "a configuration has 64 bytes");

/* Constant, in memory from the start: gcc 12 says of the instruction that it reads eight bytes alone, and leaves out what would be stored behind them. */
static const struct tile_shapes shapes = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

void own_tiles_begin(void)
{
    _tile_loadconfig(&shapes);
}

void own_tiles_end(void)
{
    _tile_release();
}

#define TILE_FLOATS 16 /* of a row */
#define ROW_FLOATS  32 /* of sums: two tiles */

#define INLINE static inline __attribute__((always_inline))

struct places {
    const uint8_t *x, *more, *w;
    size_t stride; /* bytes from one row of x to the next */
};

/* One row of all tiles. 0 to 3 are two by two of sums, 4 and 5 rows of x, 6 and 7 columns of w. two_rows, two_cols: constants where it is expanded. */
INLINE void step(const struct places *p, const bool two_rows, const bool two_cols)
{
    _tile_loadd(6, p->w, 128);
    _tile_loadd(4, p->x, p->stride);
    _tile_dpbf16ps(0, 4, 6);
    if (two_cols) {
        _tile_loadd(7, p->w + 64, 128);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (two_rows) {
        _tile_loadd(5, p->more, p->stride);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (two_rows && two_cols) {
        _tile_dpbf16ps(3, 5, 7);
    }
}

INLINE void sums_store(float *room, const bool two_rows, const bool two_cols)
{
    _tile_stored(0, room, ROW_FLOATS * sizeof(float));
    if (two_cols) {
        _tile_stored(1, room + TILE_FLOATS, ROW_FLOATS * sizeof(float));
    }
    if (two_rows) {
        _tile_stored(2, room + 16 * ROW_FLOATS, ROW_FLOATS * sizeof(float));
    }
    if (two_rows && two_cols) {
        _tile_stored(3, room + 16 * ROW_FLOATS + TILE_FLOATS, ROW_FLOATS * sizeof(float));
    }
}

INLINE void sums(const struct gemm_tile *t, float *room, const bool two_rows, const bool two_cols)
{
    struct places p = {(const uint8_t *)t->x, (const uint8_t *)t->more, (const uint8_t *)t->w,
                       t->x_stride * sizeof(float)};
    const uint8_t *next = (const uint8_t *)t->next;
    const size_t over = (t->band_stride - t->k) * sizeof(float); /* bands may overlap: then it wraps */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t band = 0; band < t->bands; band++, p.x += over, p.more += over) {
        for (size_t k = 0; k < t->k; k += OWN_TILES_K) {
            step(&p, two_rows, two_cols);
            for (size_t i = 0; t->fetch && i < OWN_TILES_K; i++) {
                __builtin_prefetch(next + 64 * i);
            }
            p.x += 64;
            p.more += 64;
            p.w += 2 * 64 * OWN_TILES_K;
            next += 64 * OWN_TILES_K;
        }
    }
    sums_store(room, two_rows, two_cols);
}

INLINE __m512 clamped(__m512 v, const struct gemm_tile *t)
{
    /* The limit is the first operand: NaN, the second one, passes. */
    return _mm512_min_ps(_mm512_set1_ps(t->max), _mm512_max_ps(_mm512_set1_ps(t->min), v));
}

/* One vector of rows [from, to) on its way out: with the bias or what earlier blocks of k gave, then the other summand, then the limits. */
INLINE void rows_out(const struct gemm_tile *t, const float *room, size_t from, size_t to, size_t at,
                     const __mmask16 some)
{
    const bool bias = t->first && t->bias != NULL, sum = t->last && t->sum != NULL;
    const __m512 start = bias ? _mm512_loadu_ps(t->bias + at) : _mm512_setzero_ps();
    float *y = t->y + from * t->y_stride + at;
    for (size_t r = from; r < to; r++, y += t->y_stride, room += ROW_FLOATS) {
        __m512 v = _mm512_load_ps(room + at);
        v = _mm512_add_ps(v, t->first ? start : _mm512_maskz_loadu_ps(some, y));
        if (sum) {
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(some, t->sum + r * t->sum_stride + at));
        }
        _mm512_mask_storeu_ps(y, some, t->last ? clamped(v, t) : v);
    }
}

static void column_out(const struct gemm_tile *t, const float *room, size_t at, const __mmask16 some)
{
    const size_t split = t->m < t->split ? t->m : t->split;
    rows_out(t, room, 0, split, at, some);
    rows_out(t, room + 16 * ROW_FLOATS, split, t->m, at, some);
}

static __mmask16 columns_of(size_t n)
{
    return (__mmask16)(n >= TILE_FLOATS ? 0xffffu : (1u << n) - 1);
}

void own_gemm_tiles(const struct gemm_tile *t)
{
    _Alignas(64) float room[OWN_TILES_MR * ROW_FLOATS];
    const bool two_cols = t->n > TILE_FLOATS;
    if (t->m > t->split) {
        two_cols ? sums(t, room, true, true) : sums(t, room, true, false);
    } else {
        two_cols ? sums(t, room, false, true) : sums(t, room, false, false);
    }
    column_out(t, room, 0, columns_of(t->n));
    if (t->n > TILE_FLOATS) {
        column_out(t, room, TILE_FLOATS, columns_of(t->n - TILE_FLOATS));
    }
}
