/* Every table of integer kernels that this processor can run gives the numbers of a plain loop: the session's choice is only one of them. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#ifdef __x86_64__
#define OWN_X86
#endif
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_int.h"
#include "backend/xnnpack/own_tiles.h"
#include "cross.h"

#define ROWS  53
#define WORDS 38
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
    static int32_t sums[BYTES], sums_want[BYTES], zeros[BYTES], add32[BYTES];
    static double add[BYTES];
    static float scale[BYTES], real[BYTES], real_want[BYTES];
    fill(taps, sizeof taps);
    for (size_t i = 0; i < BYTES; i++) {
        weights[i] = weights[BYTES + i] = weights[2 * BYTES + i] = (int16_t)cross_pick(-255, 255);
        zeros[i] = (int32_t)cross_pick(-128, 127);
        add32[i] = (int32_t)cross_pick(-100000, 100000);
        add[i] = (double)add32[i];
        scale[i] = (float)cross_pick(1, 999) * 1e-5f;
    }
    const uint8_t *pointers[3] = {taps[0], NULL, taps[2]};
    own->depthwise(pointers, 3, weights, BYTES, 0x80, 7, sums, BYTES);
    own_int_plain.depthwise(pointers, 3, weights, BYTES, 0x80, 7, sums_want, BYTES);
    cr_assert_arr_eq(sums, sums_want, sizeof sums);
    struct requantise q = {
        .add = add, .scale = scale, .w_zero = zeros, .row_sum = 1234, .zero = 3, .low = -131, .high = 124};
    for (int i = 0; i < 4; i++) {
        q.w_zero = i % 2 ? NULL : zeros;
        q.add32 = NULL;
        own_int_plain.requantise(sums, &q, want, BYTES);
        q.add32 = i / 2 ? add32 : NULL;
        own->requantise(sums, &q, y, BYTES);
        cr_assert_arr_eq(y, want, sizeof y);
    }
    for (int i = 0; i < 6; i++) {
        struct int_pair pair = {.adds = i % 2, .flip = 0x80, .zero = {3, 7}, .y_zero = 10, .factor = {0.5f, 0.25f}};
        uint8_t marks[BYTES], marks_want[BYTES];
        pair.low = -10.0f, pair.high = 245.0f, pair.near_tie = 1e-3f, pair.factor[0] = i % 2 ? 0.5f : 0.0078125f;
        bool any = own->pair(&pair, taps[0], i / 2 != 1, taps[1], i / 2 != 2, y, marks, BYTES);
        cr_assert_eq(any, own_int_plain.pair(&pair, taps[0], i / 2 != 1, taps[1], i / 2 != 2, want, marks_want, BYTES));
        cr_assert_arr_eq(y, want, sizeof y);
        cr_assert_arr_eq(marks, marks_want, sizeof marks);
        cr_assert(i >= 2 || (any && memchr(marks, 0, BYTES) != NULL), "some lie on a tie");
    }
    for (size_t n = 1; n < 100; n++) { /* sums of rows of every width */
        memset(sums, 0, sizeof sums);
        memset(sums_want, 0, sizeof sums_want);
        own->sum_rows(taps[0], n, BYTES / n, 0x80, sums, n);
        for (size_t at = 0; at < BYTES / n * n; at++) {
            sums_want[at % n] += (uint8_t)(taps[0][at] ^ 0x80);
        }
        cr_assert_arr_eq(sums, sums_want, sizeof sums);
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

#ifdef OWN_X86
static uint8_t requantised(int64_t sum, float scale, const struct requantise *q)
{
    float f = (float)sum * scale;
    f = f >= q->low ? f : q->low;
    f = f > q->high ? q->high : f;
    return (uint8_t)((int32_t)rintf(f) + q->zero);
}

struct taken {
    size_t nr, rows, next; /* next: the row that comes next */
    int32_t sums[ROWS][32];
};

static void take(const void *taker, const int32_t *sums, size_t row, size_t rows)
{
    struct taken *t = (struct taken *)(uintptr_t)taker;
    cr_assert_eq(row, t->next, "each row comes once, in order");
    for (size_t r = 0; r < rows; r++) {
        memcpy(t->sums[row + r], sums + r * t->nr, t->nr * sizeof *sums);
    }
    t->next = row + rows;
}

/* The sums that the tile makes bytes of. */
static void tile_taken(const struct own_bytes *own, size_t nr, struct int_tile t)
{
    static struct taken taken_now;
    taken_now = (struct taken){.nr = nr};
    t.take = take, t.taker = &taken_now, t.y = NULL, t.scale = NULL, t.w_zero = NULL, t.row_sum = NULL;
    own->tile(&t);
    cr_assert_eq(taken_now.next, t.m);
    for (size_t r = 0; r < t.m; r++) {
        for (size_t c = 0; c < t.n; c++) {
            int64_t sum = t.add[c];
            for (size_t run = 0, word = 0; run < t.runs; run++) {
                for (size_t k = 0; k < 4 * t.run_words; k++) {
                    const uint8_t v = t.x[r * t.x_stride + t.offsets[run] + k];
                    sum += (int64_t)v * part(t.w[(word + k / 4) * nr + c], 4, k % 4, true);
                }
                word += t.run_words;
            }
            cr_assert_eq(taken_now.sums[r][c], sum, "row %zu of %zu, column %zu of %zu", r, t.m, c, t.n);
        }
    }
}

/* Tiles of every height and width, rows that do not lie together and are runs that do not, to both kinds of bytes. */
static void tiles(const struct own_bytes *own, size_t nr, size_t m, size_t n)
{
    enum { NR = 32, STRIDE = 4 * WORDS + 24 };
    static uint8_t rows[ROWS * STRIDE], y[ROWS * 40];
    int32_t add[NR], zeros[NR], row_sums[ROWS];
    float scale[NR];
    const bool is_signed = m % 4 > 1;
    const uint32_t runs = m % 3 == 0 ? 1 : 2, gap = runs > 1 ? 8 : 0, offsets[2] = {0, 4 * WORDS / 2 + gap};
    struct requantise q = is_signed ? (struct requantise){.zero = -20, .low = -108, .high = 147}
                                    : (struct requantise){.zero = 5, .low = -5, .high = 250};
    fill(rows, sizeof rows);
    fill(w, sizeof w);
    for (size_t c = 0; c < NR; c++) {
        add[c] = (int32_t)cross_pick(-100000, 100000);
        zeros[c] = (int32_t)cross_pick(-128, 127);
        scale[c] = (float)cross_pick(1, 999) * 1e-6f;
    }
    for (size_t r = 0; r < m; r++) {
        row_sums[r] = own->sum(rows + r * STRIDE, 4 * WORDS);
        int32_t sum = 0;
        for (size_t k = 0; k < (size_t)4 * WORDS; k++) {
            sum += rows[r * STRIDE + k];
        }
        cr_assert_eq(row_sums[r], sum);
    }
    memset(y, 0xa5, sizeof y);
    struct int_tile t = {.x = rows, .w = w, .add = add, .scale = scale, .w_zero = m % 2 ? zeros : NULL};
    t.row_sum = row_sums, t.y = y, t.x_stride = STRIDE, t.y_stride = 40, t.m = m, t.n = n;
    t.runs = runs, t.run_words = WORDS / runs, t.offsets = offsets;
    t.zero = q.zero, t.low = q.low, t.high = q.high;
    own->tile(&t);
    for (size_t r = 0; r < m; r++) {
        for (size_t c = 0; c < 40; c++) {
            int64_t sum = c < n ? add[c] - (t.w_zero != NULL ? (int64_t)zeros[c] * row_sums[r] : 0) : 0;
            for (size_t k = 0; c < n && k < (size_t)4 * WORDS; k++) {
                size_t at = r * STRIDE + k + (k >= 4 * WORDS / 2 ? gap : 0);
                sum += (int64_t)rows[at] * part(w[k / 4 * nr + c], 4, k % 4, true);
            }
            uint8_t want = c < n ? requantised(sum, scale[c], &q) : 0xa5;
            cr_assert_eq(y[r * 40 + c], want, "row %zu of %zu, column %zu of %zu", r, m, c, n);
        }
    }
    tile_taken(own, nr, t);
}

/* A stream of n bytes with 9 or 5 taps over blocks that repeat. */
static void stream(const struct own_bytes *own, size_t n, size_t count, size_t blocks, bool zeros)
{
    enum { MOST = 3 * 64 };
    static uint8_t bytes[2000], weights[3 * 3 * 256], y[700];
    static int32_t add[MOST], w_zero[MOST];
    static float scale[MOST];
    uint32_t taps[12] = {0}, ones[3] = {0};
    size_t groups = (count + 3) / 4;
    struct requantise q = {.zero = 100, .low = -100, .high = 155};
    fill(bytes, sizeof bytes);
    fill(weights, sizeof weights);
    for (size_t i = 0; i < MOST; i++) {
        add[i] = (int32_t)cross_pick(-1000, 1000);
        w_zero[i] = (int32_t)cross_pick(-128, 127);
        scale[i] = (float)cross_pick(1, 999) * 1e-5f;
    }
    for (size_t t = 0; t < groups * 4; t++) {
        taps[t] = (uint32_t)(t < count ? cross_pick(0, 1000) : 0);
        ones[t / 4] |= t < count ? 1u << (t % 4 * 8) : 0;
        for (size_t i = 0; t >= count && i < blocks * 64; i++) { /* taps that fill a group */
            weights[((i / 64 * groups + t / 4) * 64 + i % 64) * 4 + t % 4] = 0;
        }
    }
    struct int_depthwise d = {.taps = taps, .ones = ones, .w = weights, .add = add, .scale = scale};
    d.w_zero = zeros ? w_zero : NULL, d.groups = groups, d.blocks = blocks;
    d.zero = q.zero, d.low = q.low, d.high = q.high;
    memset(y, 0xa5, sizeof y);
    own->depthwise(&d, bytes, y, n);
    for (size_t i = 0; i < n; i++) {
        size_t block = i / 64 % blocks, place = int_depthwise_place(i % 64);
        int64_t sum = add[block * 64 + place];
        for (size_t t = 0; t < count; t++) {
            uint8_t v = bytes[i + taps[t]];
            sum += (int64_t)v * (int8_t)weights[((block * groups + t / 4) * 64 + place) * 4 + t % 4];
            sum -= zeros ? (int64_t)v * w_zero[block * 64 + place] : 0;
        }
        cr_assert_eq(y[i], requantised(sum, scale[block * 64 + place], &q), "byte %zu of %zu", i, n);
    }
    cr_assert_eq(y[n], 0xa5, "nothing is written behind the end");
}

static void dots(const struct own_bytes *own, size_t nr)
{
    uint8_t from[300], to[310];
    for (size_t m = 1; m <= ROWS; m++) {
        tiles(own, nr, m, 1 + (m * 7) % nr);
    }
    for (size_t i = 0; i < 24; i++) {
        stream(own, 1 + i * 27, i % 2 ? 9 : 5 + i % 3, 1 + i % 3, i % 4 < 2);
    }
    fill(from, sizeof from);
    for (size_t n = 1; n <= 100; n += 9) {
        memset(to, 0, sizeof to);
        own->copy(to, from, n, 3, 98, 0x80);
        for (size_t i = 0; i < 3 * n; i++) {
            cr_assert_eq(to[i], from[i / n * 98 + i % n] ^ 0x80);
        }
        cr_assert_eq(to[3 * n], 0);
    }
}

static void lookups(own_lookup_fn lookup)
{
    uint8_t table[256], from[300], to[301];
    fill(table, sizeof table);
    fill(from, sizeof from);
    for (size_t n = 0; n <= 300; n += 7) {
        memset(to, 0xa5, sizeof to);
        lookup(table, from, to, n);
        for (size_t i = 0; i < n; i++) {
            cr_assert_eq(to[i], table[from[i]]);
        }
        cr_assert_eq(to[n], 0xa5);
    }
}
#endif

#ifdef OWN_X86
/* Tiles of AMX take 16 rows or more. */
static void amx_tiles(void)
{
    struct own_bytes own = own_bytes_vnni;
    own.tile = own_int_tile_tiles;
    own_tiles_begin();
    product(&(struct int_product){.bytes = 4, .nr = 32, .run = own_int_product_tiles});
    for (size_t m = 16; m <= ROWS; m++) {
        for (size_t n = 1; n <= 32; n += n == 15 || n == 16 || n == 31 ? 1 : n < 15 ? 7 : 14) {
            tiles(&own, 32, m, n);
        }
    }
    own_tiles_end();
}

/* The loops of AVX-VNNI, compiled with the same instruction of AVX-512 (CMakeLists.txt): few processors have only the one. */
extern const struct own_bytes own_bytes_evex;
void own_int_product_evex(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
#endif

Test(own_int, every_instruction_set)
{
    product(&own_int_plain.product);
    loops(&own_int_plain);
#ifdef OWN_X86
    if (__builtin_cpu_supports("avx2")) {
        product(&own_int_avx2.product);
        loops(&own_int_avx2);
        product(&(struct int_product){.bytes = 4, .nr = 16, .run = own_int_product_avx2});
        dots(&own_bytes_avx2, 16);
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        product(&own_int_avx512.product);
        loops(&own_int_avx512);
        if (__builtin_cpu_supports("avx512vbmi")) {
            lookups(own_int_lookup_vbmi);
        }
        if (__builtin_cpu_supports("avx512vnni")) {
            product(&(struct int_product){.bytes = 4, .nr = 32, .run = own_int_product_vnni});
            dots(&own_bytes_vnni, 32);
            product(&(struct int_product){.bytes = 4, .nr = 16, .run = own_int_product_evex});
            dots(&own_bytes_evex, 16);
        }
        if (isa_tiles()) {
            amx_tiles();
        }
    }
#endif
}
