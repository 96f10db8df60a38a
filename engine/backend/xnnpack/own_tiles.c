/* Products of pairs of bf16 in AMX tiles, with sums in f32. */
#include "backend/xnnpack/own_tiles.h"

#include <immintrin.h>
#include <math.h>
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

/* Where sums begin and end: in the rows of y, or where these are not whole tiles, in a room. */
struct sums {
    float *at, *more; /* of the first 16 rows, of the others */
    size_t stride;    /* bytes */
};

INLINE void sums_load(const struct sums *s, const bool two_rows, const bool two_cols)
{
    _tile_loadd(0, s->at, s->stride);
    if (two_cols) {
        _tile_loadd(1, s->at + TILE_FLOATS, s->stride);
    }
    if (two_rows) {
        _tile_loadd(2, s->more, s->stride);
    }
    if (two_rows && two_cols) {
        _tile_loadd(3, s->more + TILE_FLOATS, s->stride);
    }
}

INLINE void sums_store(const struct sums *s, const bool two_rows, const bool two_cols)
{
    _tile_stored(0, s->at, s->stride);
    if (two_cols) {
        _tile_stored(1, s->at + TILE_FLOATS, s->stride);
    }
    if (two_rows) {
        _tile_stored(2, s->more, s->stride);
    }
    if (two_rows && two_cols) {
        _tile_stored(3, s->more + TILE_FLOATS, s->stride);
    }
}

INLINE void sums_begin(const struct gemm_tile *t, const struct sums *s, const bool two_rows, const bool two_cols)
{
    if (!t->first) {
        sums_load(s, two_rows, two_cols);
    } else if (t->bias != NULL) { /* every row of a tile is the same */
        const struct sums rows = {(float *)(uintptr_t)t->bias, (float *)(uintptr_t)t->bias, 0};
        sums_load(&rows, two_rows, two_cols);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
}

INLINE void multiply(const struct gemm_tile *t, const struct sums *s, const bool two_rows, const bool two_cols)
{
    struct places p = {(const uint8_t *)t->x, (const uint8_t *)t->more, (const uint8_t *)t->w,
                       t->x_stride * sizeof(float)};
    const uint8_t *next = (const uint8_t *)t->next;
    const size_t over = (t->band_stride - t->k) * sizeof(float); /* bands may overlap: then it wraps */
    sums_begin(t, s, two_rows, two_cols);
    for (size_t band = 0; band < t->bands; band++, p.x += over, p.more += over) {
        for (size_t k = 0; k < t->k; k += OWN_TILES_K) {
            step(&p, two_rows, two_cols);
            for (size_t i = 0; i < t->fetch; i++, next += 64) {
                __builtin_prefetch(next);
            }
            p.x += 64;
            p.more += 64;
            p.w += 2 * 64 * OWN_TILES_K;
        }
    }
    sums_store(s, two_rows, two_cols);
}

INLINE __mmask16 columns_of(size_t n)
{
    return (__mmask16)(n >= TILE_FLOATS ? 0xffffu : (1u << n) - 1);
}

/* What earlier blocks of k gave. */
INLINE void rows_in(const struct gemm_tile *t, float *room, size_t from, size_t to)
{
    const __mmask16 low = columns_of(t->n), high = columns_of(t->n > TILE_FLOATS ? t->n - TILE_FLOATS : 0);
    const float *y = t->y + from * t->y_stride;
    for (size_t r = from; r < to; r++, y += t->y_stride, room += ROW_FLOATS) {
        _mm512_store_ps(room, _mm512_maskz_loadu_ps(low, y));
        _mm512_store_ps(room + TILE_FLOATS, _mm512_maskz_loadu_ps(high, y + TILE_FLOATS));
    }
}

/* Rows [from, to), with another summand and within the limits. Fields are read before the loop: a store of floats might change them. with_sum: a constant. */
INLINE void rows_out(const struct gemm_tile *t, const float *room, size_t from, size_t to, const bool with_sum)
{
    const __mmask16 low = columns_of(t->n), high = columns_of(t->n > TILE_FLOATS ? t->n - TILE_FLOATS : 0);
    const size_t stride = t->y_stride, sum_stride = t->sum_stride;
    const __m512 min = _mm512_set1_ps(t->last ? t->min : -INFINITY), max = _mm512_set1_ps(t->last ? t->max : INFINITY);
    float *y = t->y + from * stride;
    const float *add = with_sum ? t->sum + from * sum_stride : y;
    for (size_t r = from; r < to; r++, y += stride, room += ROW_FLOATS, add += with_sum ? sum_stride : 0) {
        __m512 a = _mm512_load_ps(room), b = _mm512_maskz_load_ps(high, room + TILE_FLOATS);
        if (with_sum) {
            a = _mm512_add_ps(a, _mm512_maskz_loadu_ps(low, add));
            b = _mm512_add_ps(b, _mm512_maskz_loadu_ps(high, add + TILE_FLOATS));
        }
        /* The limit is the first operand: NaN, the second one, passes. */
        a = _mm512_min_ps(max, _mm512_max_ps(min, a));
        b = _mm512_min_ps(max, _mm512_max_ps(min, b));
        _mm512_mask_storeu_ps(y, low, a);
        if (high != 0) {
            _mm512_mask_storeu_ps(y + TILE_FLOATS, high, b);
        }
    }
}

INLINE void sums_out(const struct gemm_tile *t, const float *room, const bool with_sum)
{
    const size_t split = t->m < t->split ? t->m : t->split;
    rows_out(t, room, 0, split, with_sum);
    rows_out(t, room + 16 * ROW_FLOATS, split, t->m, with_sum);
}

/* Rows and columns of y are whole tiles. */
static bool is_whole(const struct gemm_tile *t)
{
    return t->split == 16 && t->m % 16 == 0 && t->n % TILE_FLOATS == 0;
}

void own_gemm_tiles(const struct gemm_tile *t)
{
    _Alignas(64) float room[OWN_TILES_MR * ROW_FLOATS];
    const bool two_cols = t->n > TILE_FLOATS, with_sum = t->last && t->sum != NULL;
    const bool plain = !with_sum && (!t->last || (t->min == -INFINITY && t->max == INFINITY)),
               in_y = plain && is_whole(t);
    struct sums s = {room, room + 16 * ROW_FLOATS, ROW_FLOATS * sizeof(float)};
    if (in_y) {
        s = (struct sums){t->y, t->y + 16 * t->y_stride, t->y_stride * sizeof(float)};
    } else if (!t->first) {
        const size_t split = t->m < t->split ? t->m : t->split;
        rows_in(t, room, 0, split);
        rows_in(t, room + 16 * ROW_FLOATS, split, t->m);
    }
    if (t->m > t->split) {
        two_cols ? multiply(t, &s, true, true) : multiply(t, &s, true, false);
    } else {
        two_cols ? multiply(t, &s, false, true) : multiply(t, &s, false, false);
    }
    if (!in_y) {
        with_sum ? sums_out(t, room, true) : sums_out(t, room, false);
    }
}
