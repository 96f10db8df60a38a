#include "backend/xnnpack/turn.h"

#include <stdint.h>
#include <string.h>

/*
 * A tile of n x n elements turns in log2(n) rounds: each weaves row i into row i + n / 2. Vectors are those of every processor of the architecture: the loads
 * and stores of columns that lie far apart take longer than the shuffles.
 */
#define LANES_8  16
#define LANES_16 8

typedef uint8_t v16b __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t v8h __attribute__((vector_size(16), aligned(1), may_alias));

static inline __attribute__((always_inline)) void weave_bytes(const v16b *in, v16b *out)
{
    for (size_t i = 0; i < LANES_8 / 2; i++) {
        const v16b a = in[i], b = in[i + LANES_8 / 2];
        out[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        out[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
}

static inline __attribute__((always_inline)) void weave_halves(const v8h *in, v8h *out)
{
    for (size_t i = 0; i < LANES_16 / 2; i++) {
        const v8h a = in[i], b = in[i + LANES_16 / 2];
        out[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        out[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
}

/* Columns in *ret, of `rows` rows; the rest of each column is zero. Strides in bytes. */
static inline __attribute__((always_inline)) void tile_bytes(const uint8_t *x, size_t x_stride, const size_t rows,
                                                             v16b *ret)
{
    v16b a[LANES_8], b[LANES_8];
    for (size_t r = 0; r < LANES_8; r++) {
        a[r] = r < rows ? *(const v16b *)(x + r * x_stride) : (v16b){0};
    }
    weave_bytes(a, b);
    weave_bytes(b, a);
    weave_bytes(a, b);
    weave_bytes(b, ret);
}

static inline __attribute__((always_inline)) void tile_halves(const uint8_t *x, size_t x_stride, const size_t rows,
                                                              v8h *ret)
{
    v8h a[LANES_16], b[LANES_16];
    for (size_t r = 0; r < LANES_16; r++) {
        a[r] = r < rows ? *(const v8h *)(x + r * x_stride) : (v8h){0};
    }
    weave_halves(a, b);
    weave_halves(b, a);
    weave_halves(a, ret);
}

/* One tile of 16 bytes' width: `rows` rows become columns of as many elements. */
static inline __attribute__((always_inline)) void tile_turn(const size_t size, const uint8_t *x, size_t x_stride,
                                                            uint8_t *y, size_t y_stride, const size_t rows)
{
    const size_t lanes = 16 / size;
    uint8_t cols[LANES_8][16];
    if (size == 1) {
        tile_bytes(x, x_stride, rows, (v16b *)(void *)cols);
    } else {
        tile_halves(x, x_stride, rows, (v8h *)(void *)cols);
    }
    for (size_t c = 0; c < lanes; c++) {
        memcpy(y + c * y_stride, cols[c], rows * size);
    }
}

static void scalar_turn(size_t size, const uint8_t *x, size_t x_stride, uint8_t *y, size_t y_stride, size_t rows,
                        size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        for (size_t r = 0; r < rows; r++) {
            memcpy(y + c * y_stride + r * size, x + r * x_stride + c * size, size);
        }
    }
}

/* Fewer rows than a tile has: a constant where it is expanded, so that a column is a store or two. */
static inline __attribute__((always_inline)) void few_turn(const size_t size, const uint8_t *x, size_t x_stride,
                                                           uint8_t *y, size_t y_stride, size_t rows)
{
#define ROWS(n)                                                                                                        \
    case n:                                                                                                            \
        tile_turn(size, x, x_stride, y, y_stride, n);                                                                  \
        break
    switch (rows) {
        ROWS(4);
        ROWS(5);
        ROWS(6);
        ROWS(7);
        ROWS(8);
        ROWS(12);
    default:
        tile_turn(size, x, x_stride, y, y_stride, rows < 16 / size ? rows : 16 / size);
        break;
    }
#undef ROWS
}

/* Strides in bytes. The last tile of a row or column that no tile divides lies over the one before it. */
static inline __attribute__((always_inline)) void tiles_turn(const size_t size, const uint8_t *x, size_t x_stride,
                                                             uint8_t *y, size_t y_stride, size_t rows, size_t cols)
{
    const size_t lanes = 16 / size;
    for (size_t c = 0; c < cols; c += lanes) {
        const size_t at = c + lanes <= cols ? c : cols - lanes;
        if (rows < lanes) {
            few_turn(size, x + at * size, x_stride, y + at * y_stride, y_stride, rows);
            continue;
        }
        for (size_t r = 0; r < rows; r += lanes) {
            const size_t row = r + lanes <= rows ? r : rows - lanes;
            tile_turn(size, x + row * x_stride + at * size, x_stride, y + at * y_stride + row * size, y_stride, lanes);
        }
    }
}

void turn(size_t size, const void *x, size_t x_stride, void *y, size_t y_stride, size_t rows, size_t cols)
{
    const size_t from = x_stride * size, to = y_stride * size;
    if (cols < 16 / size) {
        scalar_turn(size, x, from, y, to, rows, cols);
    } else if (size == 1) {
        tiles_turn(1, x, from, y, to, rows, cols);
    } else {
        tiles_turn(2, x, from, y, to, rows, cols);
    }
}
