#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
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

#ifdef OWN_X86
/* Of numbers that bf16 holds exactly, with an odd number of them in a row: the products are exact, too. */
static double pairs_error(void)
{
    enum { ROWS = 14, WIDTH = 32, DEPTH = 37, PAIRS = (DEPTH + 1) / 2 };
    static _Thread_local float x[ROWS * DEPTH], room[ROWS * GEMM_LDX], panel[PAIRS * WIDTH], y[ROWS * WIDTH];
    uint16_t *w = (uint16_t *)(void *)panel;
    double error = 0.0;
    for (size_t i = 0; i < ROWS * DEPTH; i++) {
        x[i] = (float)((int)(i * 7 % 31) - 15);
    }
    memset(panel, 0, sizeof panel);
    for (size_t k = 0; k < DEPTH; k++) {
        for (size_t c = 0; c < WIDTH; c++) {
            w[(k / 2 * WIDTH + c) * 2 + k % 2] = pen_f32_to_bf16((float)((int)((k * 5 + c * 3) % 17) - 8));
        }
    }
    for (size_t r = 0; r < ROWS; r++) {
        own_pairs_make(x + r * DEPTH, (uint32_t *)(void *)(room + r * GEMM_LDX), DEPTH);
    }
    struct gemm_tile t = {.x = room,
                          .bands = 1,
                          .w = panel,
                          .next = panel,
                          .x_stride = GEMM_LDX,
                          .y = y,
                          .y_stride = WIDTH,
                          .m = ROWS,
                          .n = WIDTH,
                          .k = PAIRS,
                          .first = 1,
                          .last = 1,
                          .min = -INFINITY,
                          .max = INFINITY};
    own_gemm_pairs(&t);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < DEPTH; k++) {
            sum += (double)x[i / WIDTH * DEPTH + k] * (double)((int)((k * 5 + i % WIDTH * 3) % 17) - 8);
        }
        worse(&error, (double)y[i], sum);
    }
    return error;
}
#endif

enum pen_status selftest_bf16(enum pen_isa most, double *ret_error, struct pen_error *reterr)
{
    *ret_error = 0.0;
#ifdef OWN_X86
    *ret_error = OWN_KEPT_PAIRS && isa_pairs_within(most) ? pairs_error() : 0.0;
#else
    (void)most;
#endif
    return *ret_error <= TOLERANCE ? PEN_OK
                                   : pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                                   "xnnpack self-test: bf16 products differ from plain C by %g; use "
                                                   "precision f32, or cpu_isa_max=avx512vnni",
                                                   *ret_error);
}
