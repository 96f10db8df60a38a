#include "backend/xnnpack/qdense.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/qband.h"
#include "backend/xnnpack/qrow.h"
#include "backend/xnnpack/qtake.h"

#define ROWS_MAX  64
#define NR_MAX    32
#define TILE_STEP 32 /* rows that tiles take at a time */
#define ROW_CACHE                                                                                                      \
    ((size_t)128 << 10) /* bytes of copied rows of one unit: they stay in the second cache beside a panel */

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

/* ---- weights ---- */

static size_t group_k(const struct filter *f)
{
    return f->kernel_h * f->kernel_w * f->in;
}

/* Runs of a row, one for each row of a window: bytes of each begin with a word. */
static size_t runs_of(const struct filter *f)
{
    return isa_product()->bytes == 4 ? f->kernel_h : 1;
}

static size_t run_words_of(const struct filter *f)
{
    return isa_product()->bytes == 4 ? divide_up(f->kernel_w * f->in, 4) : divide_up(group_k(f), 2);
}

static size_t words_of(const struct filter *f)
{
    return runs_of(f) * run_words_of(f);
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
    const int64_t k = (int64_t)group_k(f), x_zero = x_zero_of(p);
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
                       .run = bytes ? run_words_of(f) * 4 : f->kernel_w * f->in,
                       .bytes = bytes,
                       .less = bytes ? (p->w_dtype == PEN_DTYPE_U8 ? 128 : 0) : qdense_w_zero(p, o)};
    return column_fill(f, p, o, &c);
}

/* What stands beside the words of column j, whose sum is this. */
static void column_end(const struct filter *f, const struct qparams *p, size_t o, size_t j, int64_t sum, uint8_t *to)
{
    size_t k = group_k(f), n = columns(f);
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

/* A matrix [k, n] whose rows lie as they are: four rows at a time become words. */
static bool is_matrix(const struct filter *f)
{
    return isa_product()->bytes == 4 && f->groups == 1 && f->kernel_h * f->kernel_w == 1 && f->out_step == 1;
}

static void matrix_pack(const struct filter *f, const struct qparams *p, uint8_t *to)
{
    const size_t nr = isa_product()->nr, words = words_of(f);
    const uint8_t flip = p->w_dtype == PEN_DTYPE_U8 ? 0x80 : 0;
    uint32_t *panel = (uint32_t *)(void *)(to + columns(f) * sizeof(double));
    uint8_t nothing[NR_MAX];
    memset(nothing, flip, sizeof nothing);
    for (size_t j = 0; j < f->out; j += nr, panel += nr * words) {
        const size_t n = f->out - j < nr ? f->out - j : nr;
        int32_t sums[NR_MAX] = {0};
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
    if (is_matrix(f)) {
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
    const size_t out = f->out / f->groups, k = group_k(f);
    size_t merged = 1;
    for (size_t m = 2; m <= f->groups && m * out <= MERGED_OUT && m * k <= QDENSE_K_MAX; m++) {
        merged = f->groups % m == 0 ? m : merged;
    }
    f->groups /= merged;
    f->in *= merged;
    return merged;
}

/* ---- the product ---- */

/* Sums of rows against one panel, to y[m][nr]. */
static void sums_run(const struct qdense *d, const uint8_t *x, size_t x_stride, const uint32_t *w, size_t m, int32_t *y)
{
    const uint32_t *rows = (const uint32_t *)(const void *)x;
#ifdef OWN_X86
    if (d->tiles && m >= OWN_TILES_MR / 2) {
        own_int_product_tiles(rows, x_stride / 4, w, d->words, m, y);
        return;
    }
#endif
    isa_product()->run(rows, x_stride / 4, w, d->words, m, y);
}

void qdense_init(struct qdense *d, const struct dense_image *image, const struct filter *f, size_t threads)
{
    size_t m = image->batch * image->out_h * image->out_w;
    *d = (struct qdense){.image = *image, .m = m, .k = group_k(f), .n = f->out / f->groups, .y_stride = f->out};
    d->runs = runs_of(f);
    d->run_words = run_words_of(f);
    d->words = d->runs * d->run_words;
    d->rows_block = ROW_CACHE / (d->words * 4 + 4);
    d->tiles = qdense_tiles(m, 1, d->words, m * d->k * d->n);
    const size_t step = d->tiles ? TILE_STEP : 12, most = ROWS_MAX / step * step;
    d->rows_block = d->rows_block > most ? most : d->rows_block < step ? step : d->rows_block / step * step;
    d->plain = image->kernel_h * image->kernel_w == 1 && image->stride_h == 1 && image->stride_w == 1 &&
               image->pad_top == 0 && image->pad_left == 0 && image->out_h == image->in_h &&
               image->out_w == image->in_w;
    d->dense = d->plain && image->pixel_stride == d->k && d->k % 4 == 0;
    size_t blocks = divide_up(m, d->rows_block), panels = divide_up(d->n, isa_product()->nr);
    d->panels_block = panels;
    if (threads > 1 && blocks < 2 * threads) { /* not enough rows for everybody: cut the columns too */
        size_t cuts = divide_up(2 * threads, blocks > 0 ? blocks : 1);
        d->panels_block = divide_up(panels, cuts < panels ? cuts : panels);
    }
    qband_init(d, panels, f->groups >= 2 * threads ? 1 : threads); /* groups are units of work themselves */
}

void qdense_zeros(struct qdense *d, const struct qparams *p)
{
    d->x_zero = qdense_zero(p->x_zero, p->x_dtype);
    d->flip = p->x_dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    d->y_dtype = p->y_dtype;
    d->y_zero = p->y_dtype == PEN_DTYPE_I32 || p->y_dtype == PEN_DTYPE_F32 ? 0 : qdense_zero(p->y_zero, p->y_dtype);
    d->direct = d->plain && d->flip == 0 && isa_bytes() != NULL && d->k % 4 == 0;
}

static size_t thread_bytes(const struct qdense *d)
{
    size_t copied = (d->rows_block * (d->words + 1) * 4 + 127) / 64 * 64, band = qband_bytes(d);
    return copied > band ? copied : band;
}

size_t qdense_scratch_bytes(const struct qdense *d, size_t threads)
{
    return threads * thread_bytes(d);
}

struct job {
    const struct qdense *d;
    struct qweights w;
    size_t group; /* columns of the groups before */
    const uint8_t *x;
    void *y;
    uint8_t *scratch;
    size_t row_blocks, col_blocks;
    bool tiles; /* sums are requantised in registers */
    atomic_size_t next;
};

/* Sums that leave as bytes without being written down. */
static void panel_tile(const struct job *j, const uint8_t *x, size_t x_stride, size_t row0, size_t rows, size_t panel,
                       const int32_t *row_sums)
{
    static const uint32_t start[1] = {0};
    const struct qdense *d = j->d;
    struct int_tile t = qdense_tile(d, &j->w, panel);
    t.x = x;
    t.x_stride = x_stride;
    t.row_sum = row_sums;
    t.offsets = start;
    t.runs = 1;
    t.run_words = d->words;
    t.y = (uint8_t *)j->y + row0 * d->y_stride + j->group + panel * isa_product()->nr;
    t.m = rows;
    qdense_tile_run(d->tiles, &t);
}

static void unit_run(const struct job *j, size_t unit, uint8_t *scratch)
{
    const struct qdense *d = j->d;
    const struct int_product *q = isa_product();
    const struct own_bytes *dots = isa_bytes();
    _Alignas(64) int32_t sums[ROWS_MAX * NR_MAX];
    size_t row0 = unit / j->col_blocks * d->rows_block, panel0 = unit % j->col_blocks * d->panels_block;
    size_t rows = d->m - row0 < d->rows_block ? d->m - row0 : d->rows_block, x_stride = d->words * 4;
    int32_t *row_sums = (int32_t *)(void *)((uint32_t *)(void *)scratch + d->rows_block * d->words);
    const uint8_t *x = scratch;
    const bool floats = d->y_dtype == PEN_DTYPE_F32, direct = d->direct && (j->tiles || floats);
    if (direct) {
        x = j->x + row0 * d->image.pixel_stride;
        x_stride = d->image.pixel_stride;
    }
    if (d->dense && j->tiles && !direct) {
        dots->copy(scratch, j->x + row0 * d->k, rows * d->k, 1, 0, d->flip);
    }
    for (size_t r = 0; r < rows && !direct && !(d->dense && j->tiles); r++) {
        qrow_copy(d, j->x, row0 + r, scratch + r * x_stride);
    }
    for (size_t r = 0; r < rows; r++) {
        row_sums[r] = j->w.w_zero_any ? dots->sum(x + r * x_stride, d->words * 4) : 0;
    }
    for (size_t p = panel0; p < panel0 + d->panels_block && p * q->nr < d->n; p++) {
        if (j->tiles) {
            panel_tile(j, x, x_stride, row0, rows, p, row_sums);
            continue;
        }
        const struct qtaker taker = {d, &j->w, j->y, j->group, row0, p * q->nr, row_sums};
        sums_run(d, x, x_stride, j->w.panels + p * q->nr * d->words, rows, sums);
        qtake(&taker, sums, 0, rows);
    }
}

/* One task per thread, each with its own piece of scratch; units are taken as they come. */
static void task(void *context, size_t thread)
{
    struct job *j = context;
    uint8_t *scratch = j->scratch + thread * thread_bytes(j->d);
    size_t units = j->row_blocks * j->col_blocks;
    qdense_tiles_hold(j->d->tiles);
    for (size_t u = atomic_fetch_add(&j->next, 1); u < units; u = atomic_fetch_add(&j->next, 1)) {
        unit_run(j, u, scratch);
    }
    qdense_tiles_leave(j->d->tiles);
}

static void group_run(const struct qdense *d, const struct qgroups *q, size_t g, const uint8_t *x, void *y,
                      void *scratch, struct run *r)
{
    struct job j = {.d = d, .w = qgroups_weights(q, g), .group = g * d->n, .y = y, .scratch = scratch};
    j.x = x + g * d->image.channels;
    j.row_blocks = divide_up(d->m, d->rows_block);
    j.col_blocks = divide_up(divide_up(d->n, isa_product()->nr), d->panels_block);
    j.tiles = isa_bytes() != NULL && !qtake_needed(d, &j.w);
    atomic_init(&j.next, 0);
    parallel(r, task, &j, team_threads(r->team));
}

static void groups_run(const struct qdense *d, const struct qgroups *q, const uint8_t *x, void *y, void *scratch,
                       struct run *r)
{
    if (d->band.rows > 0) {
        qband_run(d, q, x, y, scratch, thread_bytes(d), r);
        return;
    }
    for (size_t g = 0; g < q->count; g++) {
        group_run(d, q, g, x, y, scratch, r);
    }
}

void qdense_run(const struct qdense *d, const struct qweights *w, const uint8_t *x, void *y, void *scratch,
                struct run *r)
{
    groups_run(d, &(struct qgroups){.one = w, .count = 1}, x, y, scratch, r);
}

void qdense_run_groups(const struct qdense *d, const struct filter *f, const uint8_t *packed, const uint8_t *x, void *y,
                       void *scratch, struct run *r)
{
    groups_run(d, &(struct qgroups){.f = f, .packed = packed, .count = f->groups}, x, y, scratch, r);
}
