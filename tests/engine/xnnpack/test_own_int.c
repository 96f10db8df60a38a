/* Every table of integer kernels that this processor can run gives the numbers of a plain loop: the session's choice is only one of them. */
#include <criterion/criterion.h>
#include <string.h>

#ifdef __x86_64__
#define OWN_X86
#endif
#include "backend/xnnpack/own_int.h"
#include "cross.h"

#define ROWS  29
#define WORDS 37
#define BYTES 301

static uint32_t x[ROWS * WORDS], w[WORDS * 64];
static int32_t got[ROWS * 64];

static void fill(void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)cross_random();
    }
}

/* The number at place `at` of a word. */
static int32_t part(uint32_t word, size_t bytes, size_t at, bool is_signed)
{
    uint32_t v = word >> at * (bytes == 4 ? 8 : 16);
    return bytes != 4 ? (int16_t)(uint16_t)v : is_signed ? (int8_t)(uint8_t)v : (uint8_t)v;
}

static void product(const struct int_product *p)
{
    fill(x, sizeof x);
    fill(w, sizeof w);
    for (size_t i = 0; p->bytes == 2 && i < WORDS * 64; i++) { /* differences of bytes, as they are packed */
        w[i] &= 0x00ff00ff;
    }
    p->run(x, WORDS, w, WORDS, ROWS, got);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < p->nr; c++) {
            int64_t sum = 0;
            for (size_t k = 0; k < WORDS; k++) {
                for (size_t at = 0; at < p->bytes; at++) {
                    sum += (int64_t)part(x[r * WORDS + k], p->bytes, at, false) *
                           part(w[k * p->nr + c], p->bytes, at, true);
                }
            }
            cr_assert_eq(got[r * p->nr + c], (int32_t)sum);
        }
    }
}

static void loops(const struct own_int *own)
{
    static uint8_t taps[3][BYTES], y[BYTES], want[BYTES];
    static int16_t weights[3 * BYTES];
    static int32_t sums[BYTES], sums_want[BYTES], zeros[BYTES];
    static double add[BYTES];
    static float scale[BYTES], real[BYTES], real_want[BYTES];
    fill(taps, sizeof taps);
    for (size_t i = 0; i < BYTES; i++) {
        weights[i] = weights[BYTES + i] = weights[2 * BYTES + i] = (int16_t)cross_pick(-255, 255);
        zeros[i] = (int32_t)cross_pick(-128, 127);
        add[i] = (double)cross_pick(-100000, 100000);
        scale[i] = (float)cross_pick(1, 999) * 1e-5f;
    }
    const uint8_t *pointers[3] = {taps[0], NULL, taps[2]};
    own->depthwise(pointers, 3, weights, BYTES, 0x80, 7, sums, BYTES);
    own_int_plain.depthwise(pointers, 3, weights, BYTES, 0x80, 7, sums_want, BYTES);
    cr_assert_arr_eq(sums, sums_want, sizeof sums);
    struct requantise q = {
        .add = add, .scale = scale, .w_zero = zeros, .row_sum = 1234, .zero = 3, .low = -131, .high = 124};
    for (int i = 0; i < 2; i++, q.w_zero = NULL) {
        own->requantise(sums, &q, y, BYTES);
        own_int_plain.requantise(sums, &q, want, BYTES);
        cr_assert_arr_eq(y, want, sizeof y);
    }
    pointers[1] = taps[1];
    own->pool_max(pointers, 3, 0x80, y, BYTES);
    own_int_plain.pool_max(pointers, 3, 0x80, want, BYTES);
    cr_assert_arr_eq(y, want, sizeof y);
    own->dequantise(taps[0], 0x80, 131, 0.037f, real, BYTES);
    own_int_plain.dequantise(taps[0], 0x80, 131, 0.037f, real_want, BYTES);
    cr_assert_arr_eq(real, real_want, sizeof real);
    own->quantise(real, 0.05f, -100.0f, 155.0f, 100, y, BYTES);
    own_int_plain.quantise(real, 0.05f, -100.0f, 155.0f, 100, want, BYTES);
    cr_assert_arr_eq(y, want, sizeof y);
}

Test(own_int, every_instruction_set)
{
    product(&own_int_plain.product);
    loops(&own_int_plain);
#ifdef OWN_X86
    if (__builtin_cpu_supports("avx2")) {
        product(&own_int_avx2.product);
        loops(&own_int_avx2);
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        product(&own_int_avx512.product);
        loops(&own_int_avx512);
        if (__builtin_cpu_supports("avx512vnni")) {
            product(&(struct int_product){.bytes = 4, .nr = 32, .run = own_int_product_vnni});
        }
    }
#endif
}
