/* Weights of products of bytes, packed once: panels, and what stands beside each column. */
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

int32_t qdense_zero(const void *zero, enum pen_dtype dtype)
{
    return zero == NULL ? 0 : dtype == PEN_DTYPE_I8 ? *(const int8_t *)zero : *(const uint8_t *)zero;
}

float qdense_scale(const struct qparams *p, size_t o)
{
    if (p->y_dtype == PEN_DTYPE_I32) {
        return 1.0f;
    }
    const float *w = p->w_scale;
    if (p->y_dtype == PEN_DTYPE_F32) {
        return w[p->w_scales > 1 ? o : 0];
    }
    return *(const float *)p->x_scale * w[p->w_scales > 1 ? o : 0] / *(const float *)p->y_scale;
}

int32_t qdense_w_zero(const struct qparams *p, size_t o)
{
    return p->w_zero == NULL ? 0 : qdense_zero((const uint8_t *)p->w_zero + (p->w_zeros > 1 ? o : 0), p->w_dtype);
}

size_t qdense_terms(const struct filter *f)
{
    return f->kernel_h * f->kernel_w * f->in;
}

size_t qdense_runs(const struct filter *f)
{
    return isa_product()->bytes == 4 ? f->kernel_h : 1;
}

size_t qdense_run_words(const struct filter *f)
{
    return isa_product()->bytes == 4 ? divide_up(f->kernel_w * f->in, 4) : divide_up(qdense_terms(f), 2);
}

static size_t words_of(const struct filter *f)
{
    return qdense_runs(f) * qdense_run_words(f);
}

/* Columns of a group in whole panels. */
static size_t columns(const struct filter *f)
{
    size_t nr = isa_product()->nr;
    return divide_up(f->out / f->groups, nr) * nr;
}

/* add [columns], panels, scale [columns], add32 [columns], w_zero [columns], two flags: a zero point that counts, a sum beyond 32 bits; sums of weights [columns] */
static size_t group_bytes(const struct filter *f)
{
    size_t n = columns(f);
    return (n * (words_of(f) * 4 + sizeof(double) + sizeof(float) + 3 * sizeof(int32_t)) + 8 + 63) / 64 * 64;
}

size_t qdense_packed_bytes(const struct filter *f)
{
    return f->groups * group_bytes(f);
}

struct qweights qdense_group(const struct filter *f, const uint8_t *packed, size_t group)
{
    size_t n = columns(f), words = words_of(f);
    const uint8_t *at = packed + group * group_bytes(f);
    struct qweights w = {.words = words, .add = (const double *)(const void *)at};
    w.panels = (const uint32_t *)(const void *)(at + n * sizeof(double));
    w.scale = (const float *)(const void *)(w.panels + n * words);
    w.add32 = (const int32_t *)(const void *)(w.scale + n);
    w.w_zero = w.add32 + n;
    w.w_zero_any = w.w_zero[n] != 0;
    w.narrow = w.w_zero[n + 1] == 0;
    w.sums = w.w_zero + n + 2;
    return w;
}

struct qweights qgroups_weights(const struct qgroups *q, size_t group)
{
    return q->one != NULL ? *q->one : qdense_group(q->f, q->packed, group);
}

size_t qdense_columns(const struct filter *f)
{
    return columns(f);
}

/* x_zero as the bytes of the product have it. */
static int32_t x_zero_of(const struct qparams *p)
{
    return qdense_zero(p->x_zero, p->x_dtype) + (p->x_dtype == PEN_DTYPE_I8 ? 128 : 0);
}

/* What is added to the sum of a column of bytes: k terms, whose weights have this zero point and this sum. */
static int64_t addend(int64_t k, int64_t x_zero, int64_t w_zero, int64_t sum)
{
    return isa_product()->bytes == 4 ? k * x_zero * w_zero - x_zero * sum : 0;
}

void qdense_addends(struct qweights *w, const struct filter *f, const struct qparams *p, double *add, int32_t *add32)
{
    const int64_t k = (int64_t)qdense_terms(f), x_zero = x_zero_of(p);
    for (size_t j = 0; j < f->out; j++) {
        int64_t all = addend(k, x_zero, w->w_zero[j], w->sums[j]) + (p->bias != NULL ? p->bias[j] : 0);
        add[j] = (double)all;
        add32[j] = w->narrow ? (int32_t)all : 0;
    }
    w->add = add;
    w->add32 = add32;
}

/* Where the words of one output channel go: every nr-th word of a panel. */
struct column {
    uint8_t *to;
    size_t stride; /* bytes between words */
    size_t run;    /* numbers from one row of the window to the next */
    bool bytes;    /* a word holds 4 bytes, else 2 differences of 16 bits */
    int32_t less;  /* what is taken off each weight */
};

static void column_put(const struct column *c, size_t at, int32_t v)
{
    if (c->bytes) { /* little-endian */
        c->to[at / 4 * c->stride + at % 4] = (uint8_t)v;
        return;
    }
    uint16_t bits = (uint16_t)v;
    memcpy(c->to + at / 2 * c->stride + at % 2 * 2, &bits, sizeof bits);
}

/* Of groups that are merged: those of a column's own, from `first` on. */
struct inputs {
    size_t first, count;
    int32_t others; /* what weights of the others are */
};

static struct inputs inputs_of(const struct filter *f, const struct qparams *p, size_t o)
{
    const size_t merged = p->merged > 1 ? p->merged : 1,
                 group = o % (f->out / f->groups) / (f->out / f->groups / merged);
    return (struct inputs){group * (f->in / merged), f->in / merged, qdense_w_zero(p, o)};
}

/* Gives the sum of what was put. No division per weight: 5x faster (bench_load on mobilenet_v2_100_224_u8). */
static int64_t column_fill(const struct filter *f, const struct qparams *p, size_t o, const struct column *c)
{
    const uint8_t *w = (const uint8_t *)p->w + o * f->out_step;
    const bool is_signed = p->w_dtype == PEN_DTYPE_I8;
    const struct inputs own = inputs_of(f, p, o);
    int64_t sum = 0;
    for (size_t h = 0; h < f->kernel_h; h++) {
        size_t at = h * c->run;
        for (size_t k = 0; k < f->kernel_w; k++) {
            const uint8_t *from = w + h * f->h_step + k * f->w_step;
            for (size_t i = 0; i < f->in; i++) {
                bool is = i - own.first < own.count;
                int32_t v = (!is ? own.others : is_signed ? (int8_t)*from : *from) - c->less;
                from += is ? f->in_step : 0;
                column_put(c, at++, v);
                sum += v;
            }
        }
    }
    return sum;
}

/* The words of column j of a group go to its place in the panel. Bytes keep the weight and correct for zero points later, 16 bits hold the difference. */
static int64_t column_pack(const struct filter *f, const struct qparams *p, size_t o, size_t j, uint8_t *to)
{
    const struct int_product *q = isa_product();
    const bool bytes = q->bytes == 4;
    uint32_t *panel = (uint32_t *)(void *)(to + columns(f) * sizeof(double)) + j / q->nr * q->nr * words_of(f);
    struct column c = {.to = (uint8_t *)(panel + j % q->nr),
                       .stride = q->nr * sizeof *panel,
                       .run = bytes ? qdense_run_words(f) * 4 : f->kernel_w * f->in,
                       .bytes = bytes,
                       .less = bytes ? (p->w_dtype == PEN_DTYPE_U8 ? 128 : 0) : qdense_w_zero(p, o)};
    return column_fill(f, p, o, &c);
}

/* What stands beside the words of column j, whose sum is this. */
static void column_end(const struct filter *f, const struct qparams *p, size_t o, size_t j, int64_t sum, uint8_t *to)
{
    size_t k = qdense_terms(f), n = columns(f);
    const bool bytes = isa_product()->bytes == 4;
    float *scale = (float *)(void *)((uint32_t *)(void *)(to + n * sizeof(double)) + n * words_of(f));
    int32_t *add32 = (int32_t *)(void *)(scale + n), *w_zero = add32 + n;
    int32_t zero = qdense_w_zero(p, o), shift = p->w_dtype == PEN_DTYPE_U8 ? 128 : 0;
    int64_t most = 255 * (int64_t)k * (128 + abs(zero - shift)); /* of a sum and what zero points take from it */
    int64_t add = p->bias != NULL ? p->bias[o] : 0;
    w_zero[j] = bytes ? zero - shift : 0;
    w_zero[n + 2 + j] = (int32_t)sum;
    add += addend((int64_t)k, p->x_zero_later ? 0 : x_zero_of(p), w_zero[j], sum);
    most += p->x_zero_later ? llabs(addend((int64_t)k, 255, w_zero[j], sum)) : 0;
    w_zero[n] |= w_zero[j];
    scale[j] = qdense_scale(p, o);
    ((double *)(void *)to)[j] = (double)add;
    bool narrow = most + llabs(add) <= INT32_MAX;
    add32[j] = narrow ? (int32_t)add : 0;
    w_zero[n + 1] |= narrow ? 0 : 1;
}

/* A matrix [k, n] whose rows lie as they are: four rows at a time become words. Merged groups have no such rows, each column has a weight of its own group only. */
static bool is_matrix(const struct filter *f, const struct qparams *p)
{
    return isa_product()->bytes == 4 && f->groups == 1 && p->merged <= 1 && f->kernel_h * f->kernel_w == 1 &&
           f->out_step == 1;
}

static void matrix_pack(const struct filter *f, const struct qparams *p, uint8_t *to)
{
    const size_t nr = isa_product()->nr, words = words_of(f);
    const uint8_t flip = p->w_dtype == PEN_DTYPE_U8 ? 0x80 : 0;
    uint32_t *panel = (uint32_t *)(void *)(to + columns(f) * sizeof(double));
    uint8_t nothing[INT_NR_MAX];
    memset(nothing, flip, sizeof nothing);
    for (size_t j = 0; j < f->out; j += nr, panel += nr * words) {
        const size_t n = f->out - j < nr ? f->out - j : nr;
        int32_t sums[INT_NR_MAX] = {0};
        for (size_t k = 0; k < words; k++) {
            const uint8_t *rows[4];
            for (size_t i = 0; i < 4; i++) {
                rows[i] = 4 * k + i < f->in ? (const uint8_t *)p->w + (4 * k + i) * f->in_step + j : nothing;
            }
            isa_int()->weave(rows, flip, panel + k * nr, sums, n);
        }
        for (size_t i = 0; i < n; i++) {
            column_end(f, p, j + i, j + i, sums[i], to);
        }
    }
}

void qdense_pack(const struct filter *f, const struct qparams *p, uint8_t *packed)
{
    size_t n = f->out / f->groups;
    memset(packed, 0, qdense_packed_bytes(f));
    if (is_matrix(f, p)) {
        matrix_pack(f, p, packed);
        return;
    }
    for (size_t g = 0; g < f->groups; g++) {
        uint8_t *to = packed + g * group_bytes(f);
        for (size_t j = 0; j < n; j++) {
            column_end(f, p, g * n + j, j, column_pack(f, p, g * n + j, j, to), to);
        }
    }
}

#define MERGED_OUT 16 /* columns of a vector */

size_t qdense_merge(struct filter *f)
{
    return filter_merge(f, MERGED_OUT, QDENSE_K_MAX);
}
