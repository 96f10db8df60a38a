#include "backend/xnnpack/own_vec.h"

/*
 * The tile's shape fills the vector registers: avx512 14 x 2 accumulators, 2 for w, 1 for x of 32; avx2 6 x 2 + 2 + 1 of 16; plain 4 x 2 + 2 + 1 of 16.
 * 14 rows also divide the images of common nets (56 x 56, 28 x 28, 14 x 14); halves serve 7 x 7.
 */
#if OWN_LANES == 16
#define MR 14
#elif OWN_LANES == 8
#define MR 6
#else
#define MR 4
#endif
#define NR (2 * OWN_LANES)

/* The accumulators live in registers only when every loop over rows is unrolled. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 14")
#endif

static inline __attribute__((always_inline)) vf load(const float *p)
{
    return *(const vf *)p;
}

typedef int32_t vi __attribute__((vector_size(OWN_LANES * 4)));

static inline __attribute__((always_inline)) vf pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

static inline __attribute__((always_inline)) vf clamp(vf v, vf low, vf high)
{
    v = pick(v < low, low, v); /* NaN stays */
    return pick(v > high, high, v);
}

static inline __attribute__((always_inline)) vf all(float x)
{
    float part[OWN_LANES];
    for (size_t i = 0; i < OWN_LANES; i++) {
        part[i] = x;
    }
    return load(part);
}

static inline __attribute__((always_inline)) void tile_start(const struct gemm_tile *t, size_t rows, vf (*acc)[2])
{
    if (t->first) {
        vf a = {0}, b = {0};
        if (t->bias != NULL) {
            a = load(t->bias);
            b = load(t->bias + OWN_LANES);
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[r][0] = a;
            acc[r][1] = b;
        }
        return;
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        if (r < t->m) {
            acc[r][0] = load(t->y + r * t->y_stride);
            acc[r][1] = load(t->y + r * t->y_stride + OWN_LANES);
        } else {
            acc[r][0] = acc[r][1] = (vf){0};
        }
    }
}

static inline __attribute__((always_inline)) void tile_end(const struct gemm_tile *t, size_t rows, vf (*acc)[2])
{
    vf low = all(t->min), high = all(t->max);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        if (r >= t->m) {
            break;
        }
        vf a = acc[r][0], b = acc[r][1];
        if (t->last) {
            if (t->sum != NULL) {
                a += load(t->sum + r * t->sum_stride);
                b += load(t->sum + r * t->sum_stride + OWN_LANES);
            }
            a = clamp(a, low, high);
            b = clamp(b, low, high);
        }
        *(vf *)(t->y + r * t->y_stride) = a;
        *(vf *)(t->y + r * t->y_stride + OWN_LANES) = b;
    }
}

static inline __attribute__((always_inline)) void tile_run(const struct gemm_tile *t, const size_t rows)
{
    vf acc[MR][2];
    tile_start(t, rows, acc);
    const float *x = t->x;
    const float *w = t->w;
    for (size_t k = t->k; k > 0; k--) {
        vf a = load(w), b = load(w + OWN_LANES);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[r][0] += a * x[r * GEMM_LDX];
            acc[r][1] += b * x[r * GEMM_LDX];
        }
        w += NR;
        x++;
    }
    tile_end(t, rows, acc);
}

static void tile_full(const struct gemm_tile *t)
{
    if (t->m > MR / 2) {
        tile_run(t, MR);
    } else if (t->m > 1) {
        tile_run(t, MR / 2);
    } else {
        tile_run(t, 1);
    }
}

static void rows_copy(const float *from, size_t from_stride, float *to, size_t to_stride, size_t m, size_t n)
{
    for (size_t r = 0; r < m; r++) {
        for (size_t i = 0; i < n; i++) {
            to[r * to_stride + i] = from[r * from_stride + i];
        }
    }
}

/* A tile at the right edge goes through full-width copies, so that nothing beside it is touched. */
void OWN(own_gemm)(const struct gemm_tile *t)
{
    if (t->n == NR) {
        tile_full(t);
        return;
    }
    float y[MR * NR] = {0}, sum[MR * NR] = {0};
    struct gemm_tile full = *t;
    full.y = y;
    full.y_stride = NR;
    full.n = NR;
    if (!t->first) {
        rows_copy(t->y, t->y_stride, y, NR, t->m, t->n);
    }
    if (t->sum != NULL && t->last) {
        rows_copy(t->sum, t->sum_stride, sum, NR, t->m, t->n);
        full.sum = sum;
        full.sum_stride = NR;
    }
    tile_full(&full);
    rows_copy(y, NR, t->y, t->y_stride, t->m, t->n);
}
