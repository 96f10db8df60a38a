#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/plan.h"
#include "backend/xnnpack/xnn_compat.h"
#include "graph/lifetime.h"
#include "penstock/dtype.h"

/* Sizes that exercise whole vectors and tails. */
#define PIXELS    7
#define CHANNELS  24
#define OUT       37
#define TOLERANCE 1e-4

struct fixture {
    float x[PIXELS * PIXELS * CHANNELS + LIFETIME_PAD];
    float w[OUT * 9 * CHANNELS + LIFETIME_PAD];
    float bias[OUT];
    float y[PIXELS * PIXELS * OUT + LIFETIME_PAD];
};

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

static void worse(double *error, double got, double want)
{
    double d = fabs(got - want);
    *error = d > *error || d != d ? d : *error; /* NaN sticks */
}

/* 3 x 3, padding 1, one input channel per group: XNNPACK's depthwise kernels. */
static double depthwise_want(const struct fixture *f, int oy, int ox, size_t c)
{
    double sum = (double)f->bias[c];
    for (int ky = 0; ky < 3; ky++) {
        for (int kx = 0; kx < 3; kx++) {
            int y = oy + ky - 1, x = ox + kx - 1;
            if (y >= 0 && y < PIXELS && x >= 0 && x < PIXELS) {
                sum +=
                    (double)f->x[(size_t)(y * PIXELS + x) * CHANNELS + c] * (double)f->w[c * 9 + (size_t)(ky * 3 + kx)];
            }
        }
    }
    return sum;
}

static enum pen_status depthwise_test(struct fixture *f, double *error, struct pen_error *reterr)
{
    struct xc_op op = {0};
    struct xc_conv c = {.pad_top = 1,
                        .pad_right = 1,
                        .pad_bottom = 1,
                        .pad_left = 1,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .stride_h = 1,
                        .stride_w = 1,
                        .dilation_h = 1,
                        .dilation_w = 1,
                        .groups = CHANNELS,
                        .group_in = 1,
                        .group_out = 1,
                        .in_stride = CHANNELS,
                        .out_stride = CHANNELS,
                        .kernel = f->w,
                        .bias = f->bias,
                        .min = -INFINITY,
                        .max = INFINITY};
    enum xnn_status status = xc_conv_create(&c, &op);
    status = status == xnn_status_success ? xc_conv_bind(&op, 1, PIXELS, PIXELS, f->x, f->y) : status;
    status = status == xnn_status_success ? xc_run(&op) : status;
    xc_free(&op);
    if (status != xnn_status_success) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "xnnpack self-test: a convolution ended with status %d",
                             (int)status);
    }
    for (int oy = 0; oy < PIXELS; oy++) {
        for (int ox = 0; ox < PIXELS; ox++) {
            for (size_t i = 0; i < CHANNELS; i++) {
                worse(error, (double)f->y[(size_t)(oy * PIXELS + ox) * CHANNELS + i], depthwise_want(f, oy, ox, i));
            }
        }
    }
    return PEN_OK;
}

/* Our own matrix product, one tile after the other. */
static void product_test(struct fixture *f, double *error)
{
    const struct own *own = isa_own();
    static _Thread_local float block[16 * GEMM_LDX], panel[CHANNELS * 64];
    for (size_t r = 0; r < own->gemm_mr; r++) {
        for (size_t k = 0; k < CHANNELS; k++) {
            block[r * GEMM_LDX + k] = f->x[r * CHANNELS + k];
        }
    }
    fill(panel, CHANNELS * own->gemm_nr, 5);
    struct gemm_tile t = {.x = block,
                          .bands = 1,
                          .w = panel,
                          .next = panel,
                          .x_stride = GEMM_LDX,
                          .y = f->y,
                          .y_stride = own->gemm_nr,
                          .m = own->gemm_mr,
                          .n = own->gemm_nr - 3,
                          .k = CHANNELS,
                          .first = 1,
                          .last = 1,
                          .min = -INFINITY,
                          .max = INFINITY};
    own->gemm(&t);
    for (size_t r = 0; r < t.m; r++) {
        for (size_t c = 0; c < t.n; c++) {
            double sum = 0.0;
            for (size_t k = 0; k < CHANNELS; k++) {
                sum += (double)f->x[r * CHANNELS + k] * (double)panel[k * own->gemm_nr + c];
            }
            worse(error, (double)f->y[r * t.y_stride + c], sum);
        }
    }
}

static void softmax_test(struct fixture *f, double *error)
{
    const struct own *own = isa_own();
    double sum = 0.0;
    float got = own->exp_sum(f->x, f->y, OUT, 0.25f);
    for (size_t i = 0; i < OUT; i++) {
        double e = exp((double)f->x[i] - 0.25);
        worse(error, (double)f->y[i], e);
        sum += e;
    }
    worse(error, (double)got / OUT, sum / OUT);
}

enum pen_status selftest_f32(double *ret_error, struct pen_error *reterr)
{
    struct fixture *f = calloc(1, sizeof *f);
    double error = 0.0;
    if (f == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the self-test of xnnpack");
    }
    fill(f->x, PIXELS * PIXELS * CHANNELS, 1);
    fill(f->w, OUT * 9 * CHANNELS, 2);
    fill(f->bias, OUT, 3);
    enum pen_status status = depthwise_test(f, &error, reterr);
    if (status == PEN_OK) {
        product_test(f, &error);
        if (OWN_KEPT_EXP_SUM) {
            softmax_test(f, &error);
        }
        if (!(error <= TOLERANCE)) {
            status = pen_error_set(
                reterr, PEN_ERR_UNAVAILABLE,
                "xnnpack self-test: f32 results differ from plain C by %g; this processor is not usable", error);
        }
        *ret_error = error;
    }
    free(f);
    return status;
}

#ifdef OWN_PAIRS
/* Rows and columns that each product of pairs takes, and pairs of a row that fill tiles. */
enum { PAIRS_ROWS = 32, PAIRS_WIDTH = OWN_PAIRS_NR, PAIRS_DEPTH = 37, PAIRS = 32 };

static void pairs_run(struct gemm_tile *t, bool tiles)
{
#ifdef OWN_X86
    if (tiles) {
        own_tiles_begin();
        own_gemm_tiles(t);
        own_tiles_end();
        return;
    }
#endif
    (void)tiles;
    own_gemm_pairs(t);
}

/* Of numbers that bf16 holds exactly, with an odd number of them in a row: the products are exact, too. */
static double pairs_error(size_t rows, bool tiles)
{
    static _Thread_local float x[PAIRS_ROWS * PAIRS_DEPTH], room[PAIRS_ROWS * GEMM_LDX], panel[PAIRS * PAIRS_WIDTH],
        y[PAIRS_ROWS * PAIRS_WIDTH];
    uint16_t *w = (uint16_t *)(void *)panel;
    double error = 0.0;
    for (size_t i = 0; i < rows * PAIRS_DEPTH; i++) {
        x[i] = (float)((int)(i * 7 % 31) - 15);
    }
    memset(panel, 0, sizeof panel);
    memset(room, 0, sizeof room);
    for (size_t k = 0; k < PAIRS_DEPTH; k++) {
        for (size_t c = 0; c < PAIRS_WIDTH; c++) {
            w[(k / 2 * PAIRS_WIDTH + c) * 2 + k % 2] = pen_f32_to_bf16((float)((int)((k * 5 + c * 3) % 17) - 8));
        }
    }
    for (size_t r = 0; r < rows; r++) {
        own_pairs_make(x + r * PAIRS_DEPTH, (uint32_t *)(void *)(room + r * GEMM_LDX), PAIRS_DEPTH);
    }
    struct gemm_tile t = {.x = room,
                          .more = room + rows / 2 * GEMM_LDX,
                          .split = rows / 2,
                          .bands = 1,
                          .w = panel,
                          .next = panel,
                          .x_stride = GEMM_LDX,
                          .y = y,
                          .y_stride = PAIRS_WIDTH,
                          .m = rows,
                          .n = PAIRS_WIDTH,
                          .k = PAIRS,
                          .first = 1,
                          .last = 1,
                          .min = -INFINITY,
                          .max = INFINITY};
    pairs_run(&t, tiles);
    for (size_t i = 0; i < rows * PAIRS_WIDTH; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < PAIRS_DEPTH; k++) {
            sum +=
                (double)x[i / PAIRS_WIDTH * PAIRS_DEPTH + k] * (double)((int)((k * 5 + i % PAIRS_WIDTH * 3) % 17) - 8);
        }
        worse(&error, (double)y[i], sum);
    }
    return error;
}
#endif

enum pen_status selftest_bf16(enum pen_isa most, double *ret_error, struct pen_error *reterr)
{
    const char *instead = "avx512vnni";
    *ret_error = 0.0;
#ifdef OWN_PAIRS
    *ret_error = OWN_KEPT_PAIRS && isa_pairs_within(most) ? pairs_error(OWN_PAIRS_MR, false) : 0.0;
    if (*ret_error <= TOLERANCE && OWN_KEPT_PAIRS && isa_tiles_within(most)) {
        *ret_error = pairs_error(PAIRS_ROWS, true);
        instead = "avx512bf16";
    }
#else
    (void)most;
#endif
    return *ret_error <= TOLERANCE ? PEN_OK
                                   : pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                                   "xnnpack self-test: bf16 products differ from plain C by %g; use "
                                                   "precision f32, or cpu_isa_max=%s",
                                                   *ret_error, instead);
}

#define INT_ROWS  19 /* more than a tile has */
#define INT_WORDS 25

/* Numbers of a word as the product reads them: four bytes, those of w signed, or two of 16 bits. */
static int32_t word_product(uint32_t x, uint32_t w, size_t bytes)
{
    int32_t sum = 0;
    for (unsigned at = 0; at < 32; at += bytes == 4 ? 8 : 16) {
        sum += bytes == 4 ? (int32_t)(uint8_t)(x >> at) * (int8_t)(uint8_t)(w >> at)
                          : (int32_t)(int16_t)(uint16_t)(x >> at) * (int16_t)(uint16_t)(w >> at);
    }
    return sum;
}

typedef void (*int_run_fn)(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);

static enum pen_status int8_check(int_run_fn run, size_t bytes, size_t nr, const char *instead,
                                  struct pen_error *reterr)
{
    static _Thread_local uint32_t x[(INT_ROWS + 1) * INT_WORDS], w[INT_WORDS * 64];
    static _Thread_local int32_t y[INT_ROWS * 64];
    const uint32_t mask = bytes == 4 ? UINT32_MAX : 0x00ff00ff; /* numbers of 16 bits are differences of bytes */
    uint32_t seed = 7;
    for (size_t i = 0; i < (INT_ROWS + 1) * INT_WORDS; i++) {
        x[i] = (seed = seed * 1664525u + 1013904223u) & mask;
    }
    for (size_t i = 0; i < INT_WORDS * nr; i++) {
        w[i] = (seed = seed * 1664525u + 1013904223u) & mask;
    }
    run(x, INT_WORDS, w, INT_WORDS, INT_ROWS, y);
    for (size_t i = 0; i < INT_ROWS * nr; i++) {
        int32_t sum = 0;
        for (size_t k = 0; k < INT_WORDS; k++) {
            sum += word_product(x[i / nr * INT_WORDS + k], w[k * nr + i % nr], bytes);
        }
        if (sum != y[i]) {
            return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                 "xnnpack self-test: a sum of products of bytes is %d, not %d; use cpu_isa_max=%s",
                                 (int)y[i], (int)sum, instead);
        }
    }
    return PEN_OK;
}

enum pen_status selftest_int8(struct pen_error *reterr)
{
    const struct int_product *p = isa_product();
    enum pen_status status = int8_check(p->run, p->bytes, p->nr, "plain", reterr);
#ifdef OWN_X86
    if (status == PEN_OK && isa_tiles()) {
        own_tiles_begin();
        status = int8_check(own_int_product_tiles, 4, OWN_TILES_NR, "avx512bf16", reterr);
        own_tiles_end();
    }
#endif
    return status;
}
