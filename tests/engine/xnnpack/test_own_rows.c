/* Each table's loops: a product of one row has the bits of the tile, the steps of a row those of the reference; narrow tiles, turns, sigmoids. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#define OWN_X86
#endif
#include "backend/row_rounding.h"
#include "backend/xnnpack/own.h"
#include "cross.h"

#ifdef OWN_X86
enum { DEPTH = 70, COLUMNS = 300, PANELS = 12 };

static float w[PANELS * 32 * DEPTH], start[COLUMNS + 32], sum[COLUMNS + 32], x[COLUMNS];

static void fill(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)cross_pick(-1000, 1000) * 1e-3f;
    }
}

static bool runs_here(const struct own *own)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return own == &own_plain || (own == &own_avx2 ? avx2 : avx512);
}

/* The results of the tile, panel after panel. */
static void by_tiles(const struct own *own, const struct gemm_row *t, float *y)
{
    for (size_t c = 0; c < t->n; c += own->gemm_nr) {
        struct gemm_tile tile = {.x = t->x,
                                 .w = t->w + c / own->gemm_nr * t->panel,
                                 .next = t->w,
                                 .bias = t->start != NULL ? t->start + c : NULL,
                                 .sum = t->sum != NULL ? t->sum + c : NULL,
                                 .y = y + c,
                                 .m = 1,
                                 .n = t->n - c < own->gemm_nr ? t->n - c : own->gemm_nr,
                                 .k = t->k,
                                 .bands = 1,
                                 .first = true,
                                 .last = true,
                                 .min = t->min,
                                 .max = t->max};
        own->gemm(&tile);
    }
}

static void product(const struct own *own, size_t k, size_t n, int form)
{
    float want[COLUMNS], *got = malloc(n * sizeof *got); /* its end is where AddressSanitizer sees it */
    struct gemm_row t = {.x = x,
                         .w = w,
                         .start = form & 1 ? start : NULL,
                         .sum = form & 2 ? sum : NULL,
                         .y = got,
                         .panel = own->gemm_nr * k,
                         .k = k,
                         .n = n,
                         .min = form & 4 ? -0.5f : -INFINITY,
                         .max = form & 4 ? 0.5f : INFINITY};
    by_tiles(own, &t, want);
    own->gemm_row(&t);
    cr_assert(memcmp(want, got, n * sizeof *got) == 0, "%s: k %zu, n %zu, form %d", own->name, k, n, form);
    free(got);
}

static void products(const struct own *own)
{
    fill(w, sizeof w / sizeof *w);
    fill(x, COLUMNS);
    fill(start, sizeof start / sizeof *start);
    fill(sum, sizeof sum / sizeof *sum);
    for (int i = 0; i < 300; i++) {
        product(own, (size_t)cross_pick(1, DEPTH), (size_t)cross_pick(1, COLUMNS), i % 8);
    }
}

/* Tiles of any number of columns have the bits of a whole one, and write nothing beside theirs. */
static void tiles(const struct own *own)
{
    float whole[14 * 40], some[14 * 40];
    for (size_t i = 0; i < 400; i++) {
        const size_t m = (size_t)cross_pick(1, (int64_t)own->gemm_mr), n = 1 + i % own->gemm_nr;
        struct gemm_tile t = {.x = x,
                              .w = w,
                              .next = w,
                              .bias = i & 1 ? start : NULL,
                              .sum = i & 2 ? sum : NULL,
                              .y_stride = 40,
                              .sum_stride = 17,
                              .x_stride = 11,
                              .m = m,
                              .n = own->gemm_nr,
                              .k = (size_t)cross_pick(1, 30),
                              .bands = (size_t)cross_pick(1, 2),
                              .band_stride = 50,
                              .first = (i & 4) == 0,
                              .last = (i & 8) == 0,
                              .min = -0.5f,
                              .max = 0.5f};
        fill(whole, sizeof whole / sizeof *whole);
        memcpy(some, whole, sizeof some);
        t.y = whole;
        own->gemm(&t);
        t.y = some;
        t.n = n;
        own->gemm(&t);
        for (size_t r = 0; r < m; r++) {
            cr_assert(memcmp(whole + r * 40, some + r * 40, n * sizeof *some) == 0, "%s: m %zu, n %zu", own->name, m,
                      n);
        }
        t.y = whole;
        fill(whole, sizeof whole / sizeof *whole);
        memcpy(some, whole, sizeof some);
        own->gemm(&t);
        for (size_t at = 0; at < sizeof some / sizeof *some; at++) {
            const bool mine = at / 40 < m && at % 40 < n;
            cr_assert(mine || whole[at] == some[at], "%s: m %zu, n %zu writes beside it", own->name, m, n);
        }
    }
}

/* Every number comes where it belongs, and nothing else is written. */
static void turns(const struct own *own)
{
    enum { MOST = 75 };
    static uint32_t from[MOST * MOST], to[MOST * (MOST + 3)];
    for (size_t i = 0; i < MOST * MOST; i++) {
        from[i] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < 700; i++) {
        const size_t rows = i < 400 ? 1 + i % 20 : (size_t)cross_pick(1, MOST),
                     cols = i < 400 ? 1 + i / 20 : (size_t)cross_pick(1, MOST);
        const size_t stride = rows + i % 4;
        memset(to, 0, sizeof to);
        own->transpose(from, MOST, to, stride, rows, cols);
        for (size_t at = 0; at < sizeof to / sizeof *to; at++) {
            const size_t c = at / stride, r = at % stride;
            const uint32_t want = c < cols && r < rows ? from[r * MOST + c] : 0;
            cr_assert(to[at] == want, "%s: %zu x %zu, stride %zu", own->name, rows, cols, stride);
        }
    }
}

/* Sigmoid and swish against double; far out they end as the formula does. */
static void sigmoids(const struct own *own)
{
    const float ends[] = {88.0f, 89.0f, 128.0f, 1e30f, 3e38f};
    for (int i = -30000; i < 30000; i++) {
        const float at = (float)i * 1e-3f, v = i % 100 == 0 && i / 100 % 10 < 5 ? copysignf(ends[i / 100 & 3], at) : at;
        float row[3] = {v, v, v}, y[3], z[3];
        own->unary(UNARY_SIGMOID, row, y, 3, 0.0f, 0.0f);
        own->unary(UNARY_SWISH, row, z, 3, 1.0f, 0.0f);
        const double s = 1.0 / (1.0 + exp(-(double)v)), w0 = (double)v * s;
        cr_assert(fabs((double)y[1] - s) <= 2e-7 && fabs((double)y[1] - s) <= 3e-6 * s + 1e-37, "%s: sigmoid %a is %a",
                  own->name, (double)v, (double)y[1]);
        cr_assert(fabs((double)z[1] - w0) <= 1e-6 + 4e-7 * fabs(w0), "%s: swish %a is %a", own->name, (double)v,
                  (double)z[1]);
    }
    float odd[4] = {NAN, INFINITY, -INFINITY, 0.0f}, y[4];
    own->unary(UNARY_SIGMOID, odd, y, 4, 0.0f, 0.0f);
    cr_assert(isnan(y[0]) && y[1] == 1.0f && y[2] == 0.0f && y[3] == 0.5f, "%s", own->name);
    own->unary(UNARY_SWISH, odd, y, 4, 1.0f, 0.0f);
    cr_assert(isnan(y[0]) && y[1] == INFINITY && y[3] == 0.0f, "%s", own->name);
}

static double gelu(double v)
{
    return 0.5 * v * (1.0 + erf(v * M_SQRT1_2));
}

/* The errors that own_math.h claims, against double. */
static void claims(const struct own *own)
{
    static const struct claim {
        enum unary_fn fn;
        const char *name;
        double (*truth)(double);
        double relative, absolute, low, high;
    } all[] = {{UNARY_EXP, "exp", exp, 2e-7, 0.0, -80.0, 80.0},
               {UNARY_LOG, "log", log, 2e-7, 1e-7, 1e-6, 90.0},
               {UNARY_TANH, "tanh", tanh, 3e-7, 0.0, -12.0, 12.0},
               {UNARY_ERF, "erf", erf, 4e-7, 0.0, -6.0, 6.0},
               {UNARY_GELU, "gelu", gelu, 4e-7, 8e-7, -9.0, 9.0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const struct claim *c = &all[i];
        for (int k = 0; k <= 40000; k++) {
            const float v = (float)(c->low + (c->high - c->low) * k / 40000.0);
            float row[3] = {v, v, v}, y[3];
            own->unary(c->fn, row, y, 3, 0.0f, 0.0f);
            const double want = c->truth((double)v), error = fabs((double)y[1] - want);
            cr_assert(error <= c->relative * fabs(want) + c->absolute, "%s: %s of %a is %a, not %a", own->name, c->name,
                      (double)v, (double)y[1], want);
        }
        float odd[3] = {NAN, 0.0f, 0.0f}, y[3];
        own->unary(c->fn, odd, y, 3, 0.0f, 0.0f);
        cr_assert(isnan(y[0]), "%s: %s of NaN", own->name, c->name);
    }
    float ends[4] = {INFINITY, -INFINITY, 1e30f, -0.0f}, y[4];
    own->unary(UNARY_ERF, ends, y, 4, 0.0f, 0.0f);
    cr_assert(y[0] == 1.0f && y[1] == -1.0f && y[2] == 1.0f && y[3] == 0.0f, "%s: ends of erf", own->name);
}

/* Shares of a row's largest: none is subnormal, and what is masked is 0. */
static void shares(const struct own *own)
{
    float row[5], y[5];
    for (int k = 0; k <= 110000; k++) {
        const float v = (float)k * -1e-3f;
        row[0] = row[1] = row[2] = row[3] = row[4] = v + 0.5f;
        const float all = own->exp_sum(row, y, 5, 0.5f);
        const double want = exp((double)(row[2] - 0.5f));
        const bool small = want < 0x1.4p-125;
        cr_assert(small ? y[2] == 0.0f || y[2] >= 0x1p-126f : fabs((double)y[2] - want) <= 2e-7 * want,
                  "%s: the share of %a is %a", own->name, (double)v, (double)y[2]);
        cr_assert(fabsf(all - 5.0f * y[2]) <= 1e-6f * all, "%s: the sum of %a", own->name, (double)v);
    }
    float odd[5] = {NAN, INFINITY, -INFINITY, -10000.0f, 100.0f};
    own->exp_sum(odd, y, 5, 0.0f);
    cr_assert(isnan(y[0]) && y[1] == INFINITY && y[2] == 0.0f && y[3] == 0.0f && y[4] == INFINITY, "%s", own->name);
}

static void steps(const struct own *own)
{
    float want, low, high;
    for (int turn = 0; turn < 200; turn++) {
        size_t n = (size_t)cross_pick(1, COLUMNS);
        float *row = malloc(n * sizeof *row), *y = malloc(n * sizeof *y), min = 0.0f, max = 0.0f;
        fill(row, n);
        for (size_t i = 0; i < n; i++) {
            row[i] = turn % 3 == 0 ? fabsf(row[i]) : row[i];
            row[i] = cross_pick(0, 60) == 0 ? NAN : row[i];
            min = row[i] < min ? row[i] : min;
            max = row[i] > max ? row[i] : max;
        }
        own->range(row, n, &low, &high);
        cr_assert(low == min && high == max, "%s: range of %zu", own->name, n);
        const struct row_steps s = row_steps_of(min, max, turn % 2 == 0);
        row[0] = turn % 5 == 0 ? INFINITY : row[0]; /* beyond the range */
        own->steps(&s, row, y, n);
        for (size_t i = 0; i < n; i++) {
            want = row_step(&s, row[i]);
            cr_assert(want == y[i] || (isnan(want) && isnan(y[i])), "%s: %a becomes %a, not %a", own->name,
                      (double)row[i], (double)y[i], (double)want);
        }
        free(row);
        free(y);
    }
}
#endif

Test(xnnpack_own_rows, each_table_has_the_same_results)
{
#ifdef OWN_X86
    const struct own *all[] = {&own_plain, &own_avx2, &own_avx512};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (runs_here(all[i])) {
            products(all[i]);
            tiles(all[i]);
            turns(all[i]);
            sigmoids(all[i]);
            claims(all[i]);
            shares(all[i]);
            steps(all[i]);
        }
    }
#endif
}

/* A row of a product is computed with panels side by side; its bits are those of a row among others. */
Test(xnnpack_own_rows, one_row_of_a_product)
{
    for (int i = 0; i < 12; i++) {
        int64_t k = cross_pick(1, 600), n = cross_pick(1, 300);
        struct cross *c = cross_new(OP_Gemm);
        cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){1, k}, false);
        cross_range(c, -0.1f, 0.1f);
        cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){k, n}, true);
        if (i % 3 > 0) {
            cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){1, i % 3 == 1 ? n : 1}, i % 2 == 0);
        }
        cross_check(c);
    }
}

Test(xnnpack_own_rows, steps_of_rows)
{
    const int64_t shapes[][3] = {{1, 49, 10}, {3, 7, 33}, {2, 300, 70}};
    for (int i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_RowRounding);
        cross_input(c, PEN_DTYPE_F32, 3, shapes[i / 2], false);
        cross_int(c, ATTR_axis, 1);
        cross_int(c, ATTR_symmetric, i % 2);
        cross_check(c);
    }
}
