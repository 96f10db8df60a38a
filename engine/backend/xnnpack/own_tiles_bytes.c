/*
 * Products of unsigned and signed bytes in AMX tiles, with exact sums of 32 bits. Where the last words of a run do not fill a row of a tile, the weights for the others are 0: a copy of
 * them is. Rows are taken 32 and 16 at a time; the last ones begin sooner, among rows that are done already, and come out the same again.
 */
#include "backend/xnnpack/own_tiles.h"

#include <immintrin.h>
#include <string.h>

typedef int32_t vi __attribute__((vector_size(64), aligned(4), may_alias));
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 14")
#endif

#include "backend/xnnpack/own_int_out.inc"

#define INLINE    static inline __attribute__((always_inline))
#define ROWS      16 /* of a tile */
#define ROW_BYTES (2 * OWN_TILES_NR * sizeof(int16_t))
#define STEP      ((size_t)OWN_TILES_K * OWN_TILES_NR) /* words of weights for one row of tiles */
_Static_assert(ROW_BYTES == OWN_TILES_NR * sizeof(uint32_t), "a row of a panel has a word for each column");

/* Weights of one panel, as tiles read them. */
struct panel {
    const uint32_t *w, *offsets;
    size_t runs, run_words;
    uint32_t ends[OWN_TILES_RUNS][OWN_TILES_K * OWN_TILES_NR]; /* of each run, where its last words do not fill a row */
};

static void panel_set(struct panel *p, const uint32_t *w, const uint32_t *offsets, size_t runs, size_t run_words)
{
    const size_t whole = run_words / OWN_TILES_K * OWN_TILES_K, left = run_words - whole;
    p->w = w;
    p->offsets = offsets;
    p->runs = runs;
    p->run_words = run_words;
    for (size_t r = 0; left > 0 && r < runs; r++) {
        memcpy(p->ends[r], w + (r * run_words + whole) * OWN_TILES_NR, left * ROW_BYTES);
        memset(p->ends[r] + left * OWN_TILES_NR, 0, (OWN_TILES_K - left) * ROW_BYTES);
    }
}

/* One row of tiles: 0 to 3 are two by two of sums. two_rows, two_cols: constants where it is expanded. */
INLINE void step(const uint8_t *x, size_t stride, const uint32_t *w, const bool two_rows, const bool two_cols)
{
    _tile_loadd(6, w, ROW_BYTES);
    _tile_loadd(4, x, stride);
    _tile_dpbusd(0, 4, 6);
    if (two_cols) {
        _tile_loadd(7, w + OWN_TILES_NR / 2, ROW_BYTES);
        _tile_dpbusd(1, 4, 7);
    }
    if (two_rows) {
        _tile_loadd(5, x + ROWS * stride, stride);
        _tile_dpbusd(2, 5, 6);
    }
    if (two_rows && two_cols) {
        _tile_dpbusd(3, 5, 7);
    }
}

/* The sums of 16 or 32 rows, to y[rows][OWN_TILES_NR]. */
INLINE void sums(const struct panel *p, const uint8_t *x, size_t stride, int32_t *y, const bool two_rows,
                 const bool two_cols)
{
    const uint32_t *w = p->w;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t r = 0; r < p->runs; r++) {
        const uint8_t *row = x + p->offsets[r];
        size_t k = p->run_words;
        for (; k >= OWN_TILES_K; k -= OWN_TILES_K, row += 4 * OWN_TILES_K, w += STEP) {
            step(row, stride, w, two_rows, two_cols);
        }
        if (k > 0) {
            step(row, stride, p->ends[r], two_rows, two_cols);
            w += k * OWN_TILES_NR;
        }
    }
    _tile_stored(0, y, ROW_BYTES);
    if (two_cols) {
        _tile_stored(1, y + OWN_TILES_NR / 2, ROW_BYTES);
    }
    if (two_rows) {
        _tile_stored(2, y + ROWS * OWN_TILES_NR, ROW_BYTES);
    }
    if (two_rows && two_cols) {
        _tile_stored(3, y + ROWS * OWN_TILES_NR + OWN_TILES_NR / 2, ROW_BYTES);
    }
}

static void sums_of(const struct panel *p, const uint8_t *x, size_t stride, int32_t *y, bool two_rows, bool two_cols)
{
    if (two_rows) {
        two_cols ? sums(p, x, stride, y, true, true) : sums(p, x, stride, y, true, false);
    } else {
        two_cols ? sums(p, x, stride, y, false, true) : sums(p, x, stride, y, false, false);
    }
}

/* How many rows from `r` on are next, of m: 32 or 16. *ret_from: where they begin. */
static size_t rows_next(size_t r, size_t m, size_t *ret_from)
{
    const size_t left = m - r, rows = left > ROWS && m >= 2 * (size_t)ROWS ? 2 * (size_t)ROWS : ROWS;
    *ret_from = left < rows ? m - rows : r;
    return rows;
}

void own_int_product_tiles(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    static const uint32_t start[1] = {0};
    struct panel p;
    panel_set(&p, w, start, 1, words);
    for (size_t r = 0, from; r < m;) {
        const size_t rows = rows_next(r, m, &from);
        sums_of(&p, (const uint8_t *)(x + from * x_stride), x_stride * sizeof *x, y + from * OWN_TILES_NR, rows > ROWS,
                true);
        r = from + rows;
    }
}

/* Sums that somebody takes as they are. */
static void rows_take(const struct int_tile *t, int32_t *room, size_t first, size_t rows)
{
    const bool two = t->n > OWN_TILES_NR / 2;
    const vi add[2] = {*(const vi *)(const void *)t->add, *(const vi *)(const void *)(t->add + OWN_TILES_NR / 2)};
    for (size_t r = 0; r < rows; r++) {
        vi *sum = (vi *)(void *)(room + r * OWN_TILES_NR);
        sum[0] += add[0];
        if (two) {
            sum[1] += add[1];
        }
    }
    t->take(t->taker, room, first, rows);
}

/* Rows from `from` on leave as bytes. */
static void rows_out(const struct int_tile *t, const int32_t *room, size_t from, size_t rows)
{
    const bool two = t->n > OWN_TILES_NR / 2;
    const vi first = *(const vi *)(const void *)t->add, second = *(const vi *)(const void *)(t->add + OWN_TILES_NR / 2);
    vi sum[4][2];
    for (size_t r = 0; r < rows; r += 4) {
        for (size_t i = 0; i < 4; i++, room += OWN_TILES_NR) {
            sum[i][0] = *(const vi *)(const void *)room + first;
            sum[i][1] = *(const vi *)(const void *)(room + OWN_TILES_NR / 2) + second;
        }
        if (two) {
            out_wide(t, sum, from + r, 2);
            out_wide(t, sum + 2, from + r + 2, 2);
        } else {
            out_narrow(t, sum, from + r, 4);
        }
    }
}

void own_int_tile_tiles(const struct int_tile *t)
{
    _Alignas(64) int32_t room[2 * ROWS * OWN_TILES_NR];
    struct panel p;
    panel_set(&p, t->w, t->offsets, t->runs, t->run_words);
    for (size_t r = 0, from; r < t->m;) {
        const size_t rows = rows_next(r, t->m, &from);
        sums_of(&p, t->x + from * t->x_stride, t->x_stride, room, rows > ROWS, t->n > OWN_TILES_NR / 2);
        if (t->take != NULL) {
            rows_take(t, room + (r - from) * OWN_TILES_NR, r, from + rows - r);
        } else {
            rows_out(t, room, from, rows);
        }
        r = from + rows;
    }
}
