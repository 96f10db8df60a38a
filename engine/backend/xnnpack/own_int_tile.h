/*
 * own_int_tile.h - the tile of an integer product, for a file that has said what a vector and a dot product are.
 *
 * Wants: vi (vector of int32), TILE_LANES, TILE_MR (8 or more only where registers allow), vi dot(vi sum, uint32_t x, vi w).
 * Threads: any.
 */
#ifndef XNNPACK_OWN_INT_TILE_H
#define XNNPACK_OWN_INT_TILE_H

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 14")
#endif

static inline __attribute__((always_inline)) void tile(const uint32_t *x, size_t x_stride, const uint32_t *w,
                                                       size_t words, int32_t *y, const int rows)
{
    vi sum[TILE_MR][2];
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (vi){0};
    }
    for (size_t k = 0; k < words; k++) {
        vi w0 = *(const vi *)(const void *)(w + k * 2 * TILE_LANES);
        vi w1 = *(const vi *)(const void *)(w + k * 2 * TILE_LANES + TILE_LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            uint32_t v = x[(size_t)r * x_stride + k];
            sum[r][0] = dot(sum[r][0], v, w0);
            sum[r][1] = dot(sum[r][1], v, w1);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        *(vi *)(void *)(y + r * 2 * TILE_LANES) = sum[r][0];
        *(vi *)(void *)(y + r * 2 * TILE_LANES + TILE_LANES) = sum[r][1];
    }
}

static inline __attribute__((always_inline)) void tiles(const uint32_t *x, size_t x_stride, const uint32_t *w,
                                                        size_t words, size_t m, int32_t *y)
{
    for (; m >= TILE_MR; m -= TILE_MR, x += TILE_MR * x_stride, y += (ptrdiff_t)TILE_MR * 2 * TILE_LANES) {
        tile(x, x_stride, w, words, y, TILE_MR);
    }
    for (; m >= 4; m -= 4, x += 4 * x_stride, y += (ptrdiff_t)8 * TILE_LANES) {
        tile(x, x_stride, w, words, y, 4);
    }
    for (; m > 0; m--, x += x_stride, y += (ptrdiff_t)2 * TILE_LANES) {
        tile(x, x_stride, w, words, y, 1);
    }
}

#endif
