#include "backend/xnnpack/flash.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"

#define KEYS_BLOCK                                                                                                     \
    256 /* of one round: scores of 56 queries take 56 KiB, packed keys and values of 64 columns 64 KiB each */
#define TILES_UNIT 4 /* row tiles of one unit of work, at most; half as many of AMX, which are more rows */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t words_of(const struct flash *f, size_t terms)
{
    return small_product_words(&f->product, terms);
}

/* Packed keys of one head: panels of `nr` keys; packed values: for each block of keys, panels of `nr` columns. */
static size_t keys_words(const struct flash *f)
{
    return round_up(f->keys, isa_own()->gemm_nr) * words_of(f, f->size);
}

static size_t values_width(const struct flash *f)
{
    return round_up(f->value_size, isa_own()->gemm_nr);
}

/* Where the values of the block that begins with this key are. */
static size_t values_at(const struct flash *f, size_t key)
{
    return keys_words(f) + key / KEYS_BLOCK * words_of(f, KEYS_BLOCK) * values_width(f);
}

static size_t head_words(const struct flash *f)
{
    return round_up(values_at(f, f->keys) + words_of(f, f->keys % KEYS_BLOCK) * values_width(f), 16);
}

/* Rows are not a power of two apart, or all of them meet in one cache set. */
static size_t row_words(size_t n)
{
    return round_up(n, 16) + 16;
}

struct flash_room {
    float *q, *scores, *shares, *sums; /* [block] rows of: words of size, keys of a round, words of these, value_size */
    float *largest, *total;            /* [block] */
    float *row;                        /* [size] */
};

/* Shares take the place of scores where they are floats. */
static size_t shares_words(const struct flash *f)
{
    return f->product.tiles ? row_words(words_of(f, KEYS_BLOCK)) : 0;
}

static size_t room_words(const struct flash *f)
{
    const size_t row =
        row_words(words_of(f, f->size)) + row_words(KEYS_BLOCK) + shares_words(f) + row_words(values_width(f)) + 2;
    return round_up(f->block * row + row_words(f->size), 16);
}

static struct flash_room room_of(const struct flash *f, float *at)
{
    struct flash_room r = {.q = at};
    r.scores = r.q + f->block * row_words(words_of(f, f->size));
    r.shares = r.scores + f->block * row_words(KEYS_BLOCK);
    r.sums = r.shares + f->block * shares_words(f);
    r.largest = r.sums + f->block * row_words(values_width(f));
    r.total = r.largest + f->block;
    r.row = r.total + f->block;
    return r;
}

void flash_init(struct flash *f, enum pen_precision precision, size_t threads)
{
    f->product =
        small_product_of(OWN_KEPT_PAIRS && precision == PEN_PRECISION_BF16 && isa_tiles() ? GEMM_PAIRS : GEMM_F32);
    const size_t mr = small_product_rows(&f->product), most = f->product.tiles ? TILES_UNIT / 2 : TILES_UNIT;
    size_t tiles = (f->queries + mr - 1) / mr, heads = f->batch * f->heads;
    size_t wanted = heads >= 4 * threads ? 1 : (4 * threads + heads - 1) / (heads > 0 ? heads : 1);
    size_t unit = tiles / wanted;
    f->block = (unit < 1 ? 1 : unit > most ? most : unit) * mr;
}

size_t flash_scratch_bytes(const struct flash *f, size_t threads)
{
    size_t heads = f->batch * f->kv_heads;
    return (heads * head_words(f) + (threads > 0 ? threads : 1) * room_words(f)) * sizeof(float) + 64;
}

struct flash_job {
    const struct flash *f;
    const struct flash_data *d;
    float *heads, *rooms;
    size_t blocks; /* units of one head */
};

static void panels_pack(const struct flash *f, float *to, const float *x, size_t k_stride, size_t n_stride, size_t k,
                        size_t n)
{
    if (f->product.tiles) {
        dense_pairs_into(to, x, k_stride, n_stride, k, n);
    } else {
        dense_pack_into(to, x, k_stride, n_stride, k, n);
    }
}

static void pack_task(void *context, size_t unit)
{
    const struct flash_job *j = context;
    const struct flash *f = j->f;
    const size_t b = unit / f->kv_heads, h = unit % f->kv_heads;
    const float *k = j->d->k + b * f->k.batch + h * f->k.head, *v = j->d->v + b * f->v.batch + h * f->v.head;
    float *to = j->heads + unit * head_words(f);
    panels_pack(f, to, k, f->k.col, f->k.row, f->size, f->keys);
    for (size_t at = 0; at < f->keys; at += KEYS_BLOCK) {
        size_t count = f->keys - at < KEYS_BLOCK ? f->keys - at : KEYS_BLOCK;
        panels_pack(f, to + values_at(f, at), v + at * f->v.row, f->v.row, f->v.col, count, f->value_size);
    }
}

static void term_bytes(const struct flash_term *t, const uint8_t *mask, float *scores, size_t n)
{
    const size_t step = t->step[3];
    for (size_t k = 0; k < n; k++) {
        const bool set = mask[k * step] != 0;
        if (t->kind == FLASH_ADD_UNLESS) {
            scores[k] += set ? 0.0f : t->fill;
        } else {
            scores[k] = set == (t->kind == FLASH_KEEP) ? scores[k] : t->fill;
        }
    }
}

/* Keys [key, key + n) of one row. */
static void terms_apply(const struct flash_job *j, const size_t at[3], size_t key, float *scores, size_t n)
{
    const struct flash *f = j->f;
    for (uint32_t i = 0; i < f->term_count; i++) {
        const struct flash_term *t = &f->terms[i];
        size_t seen = t->keys <= key ? 0 : t->keys - key < n ? t->keys - key : n;
        size_t first = at[0] * t->step[0] + at[1] * t->step[1] + at[2] * t->step[2] + key * t->step[3];
        if (t->kind == FLASH_ADD) {
            isa_own()->binary(BINARY_ADD, scores, 1, (const float *)j->d->terms[i] + first, t->step[3], scores, seen);
        } else {
            term_bytes(t, (const uint8_t *)j->d->terms[i] + first, scores, seen);
        }
        for (size_t k = seen; k < n; k++) {
            scores[k] = -INFINITY;
        }
    }
}

/* Keys that query i of batch entry b may see. */
static size_t keys_seen(const struct flash_job *j, size_t b, size_t i)
{
    const struct flash *f = j->f;
    int64_t seen = (int64_t)f->keys;
    if (j->d->valid != NULL && j->d->valid[b] < seen) {
        seen = j->d->valid[b];
    }
    if (f->causal && (int64_t)i + f->causal_offset + 1 < seen) {
        seen = (int64_t)i + f->causal_offset + 1;
    }
    return seen > 0 ? (size_t)seen : 0;
}

static void softcap(const struct flash *f, float *scores, size_t n)
{
    if (f->softcap > 0.0f) {
        isa_own()->affine(scores, scores, n, 0.0f, 1.0f / f->softcap, NULL, NULL);
        isa_own()->unary(UNARY_TANH, scores, scores, n, 0.0f, 0.0f);
        isa_own()->affine(scores, scores, n, 0.0f, f->softcap, NULL, NULL);
    }
}

static float row_largest(const struct flash *f, const float *scores, size_t n)
{
#ifdef OWN_X86
    if (OWN_KEPT_PAIRS && f->product.tiles) {
        return own_tiles_largest(scores, n);
    }
#endif
    (void)f;
    return isa_own()->fold(FOLD_MAX, scores, n);
}

/* The sum of their exponentials, which are written to `shares`; with largest = -INFINITY all are 0. */
static float row_exponentials(const struct flash *f, float *scores, size_t n, float largest, float *shares)
{
    if (largest == -INFINITY) { /* nothing seen yet */
        memset(shares, 0, words_of(f, n) * sizeof *shares);
        return 0.0f;
    }
#ifdef OWN_X86
    if (OWN_KEPT_PAIRS && f->product.tiles) {
        return own_tiles_shares(scores, (uint32_t *)(void *)shares, n, largest);
    }
#endif
    return isa_own()->exp_sum(scores, shares, n, largest);
}

/* Scores of one row and round become exponentials; the row's sums so far are scaled to the same largest score. */
static void row_shares(const struct flash *f, struct flash_room *room, size_t i, float *scores, size_t n)
{
    const float before = room->largest[i], here = row_largest(f, scores, n);
    const float largest = before > here || before != before ? before : here; /* NaN stays */
    float *sums = room->sums + i * row_words(values_width(f));
    room->largest[i] = largest;
    if (before != largest) {
        const float factor = before == -INFINITY ? 0.0f : expf(before - largest);
        if (before != -INFINITY) { /* else they are 0 */
            isa_own()->affine(sums, sums, f->value_size, 0.0f, factor, NULL, NULL);
        }
        room->total[i] *= factor;
    }
    room->total[i] +=
        row_exponentials(f, scores, n, largest, f->product.tiles ? room->shares + i * shares_words(f) : scores);
}

/* A row of floats as the first operand of a product; `to` has whole tiles. */
static void row_pair(const float *x, size_t n, float *to)
{
#ifdef OWN_PAIRS
    const size_t pairs = (n + 1) / 2;
    own_pairs_make(x, (uint32_t *)(void *)to, n);
    memset(to + pairs, 0, (dense_pairs(n) - pairs) * sizeof *to);
#else
    (void)x, (void)n, (void)to;
#endif
}

static void queries_load(const struct flash_job *j, const float *q, size_t rows, struct flash_room *room)
{
    const struct flash *f = j->f;
    for (size_t i = 0; i < rows; i++, q += f->q.row) {
        float *words = room->q + i * row_words(words_of(f, f->size)), *to = f->product.tiles ? room->row : words;
        if (f->q.col == 1) {
            isa_own()->affine(q, to, f->size, 0.0f, f->scale, NULL, NULL);
        }
        for (size_t c = 0; f->q.col != 1 && c < f->size; c++) {
            to[c] = q[c * f->q.col] * f->scale;
        }
        if (f->product.tiles) {
            row_pair(to, f->size, words);
        }
    }
}

static void results_store(const struct flash_job *j, float *y, size_t rows, const struct flash_room *room)
{
    const struct flash *f = j->f;
    for (size_t i = 0; i < rows; i++, y += f->y.row) {
        float *sums = room->sums + i * row_words(values_width(f));
        bool none = room->largest[i] == -INFINITY;
        float factor = none ? (f->hidden_zero ? 0.0f : NAN) : 1.0f / room->total[i];
        if (f->y.col == 1) {
            isa_own()->affine(sums, y, f->value_size, 0.0f, factor, NULL, NULL);
            continue;
        }
        for (size_t c = 0; c < f->value_size; c++) {
            y[c * f->y.col] = sums[c] * factor;
        }
    }
}

static void round_run(const struct flash_job *j, const size_t at[3], size_t rows, size_t key, const float *head,
                      struct flash_room *room)
{
    const struct flash *f = j->f;
    const size_t n = f->keys - key < KEYS_BLOCK ? f->keys - key : KEYS_BLOCK, stride = row_words(KEYS_BLOCK);
    small_product_run(&f->product, &(struct gemm_tile){.x = room->q,
                                                       .x_stride = row_words(words_of(f, f->size)),
                                                       .w = head + key * words_of(f, f->size),
                                                       .k = words_of(f, f->size),
                                                       .n = n,
                                                       .y = room->scores,
                                                       .y_stride = stride,
                                                       .m = rows,
                                                       .first = true});
    for (size_t i = 0; i < rows; i++) {
        float *scores = room->scores + i * stride;
        const size_t row[3] = {at[0], at[1], at[2] + i};
        size_t seen = keys_seen(j, at[0], row[2]);
        softcap(f, scores, n);
        terms_apply(j, row, key, scores, n);
        for (size_t k = seen > key ? seen - key : 0; k < n; k++) {
            scores[k] = -INFINITY;
        }
        row_shares(f, room, i, scores, n);
    }
    small_product_run(&f->product, &(struct gemm_tile){.x = f->product.tiles ? room->shares : room->scores,
                                                       .x_stride = f->product.tiles ? shares_words(f) : stride,
                                                       .w = head + values_at(f, key),
                                                       .k = words_of(f, n),
                                                       .n = f->value_size,
                                                       .y = room->sums,
                                                       .y_stride = row_words(values_width(f)),
                                                       .m = rows});
}

static void unit_run(const struct flash_job *j, size_t unit)
{
    const struct flash *f = j->f;
    const size_t at[3] = {unit / j->blocks / f->heads, unit / j->blocks % f->heads, unit % j->blocks * f->block};
    const size_t rows = f->queries - at[2] < f->block ? f->queries - at[2] : f->block;
    const size_t shared = at[1] / (f->heads / f->kv_heads);
    struct flash_room room = room_of(f, j->rooms + team_self() * room_words(f));
    const float *head = j->heads + (at[0] * f->kv_heads + shared) * head_words(f);
    memset(room.sums, 0, f->block * row_words(values_width(f)) * sizeof(float));
    for (size_t i = 0; i < f->block; i++) {
        room.largest[i] = -INFINITY;
        room.total[i] = 0.0f;
    }
    queries_load(j, j->d->q + at[0] * f->q.batch + at[1] * f->q.head + at[2] * f->q.row, rows, &room);
    size_t last = keys_seen(j, at[0], at[2] + rows - 1); /* no row of the unit sees further */
    for (size_t key = 0; key < last; key += KEYS_BLOCK) {
        round_run(j, at, rows, key, head, &room);
    }
    results_store(j, j->d->y + at[0] * f->y.batch + at[1] * f->y.head + at[2] * f->y.row, rows, &room);
}

static void flash_task(void *context, size_t unit)
{
    const struct flash_job *j = context;
#ifdef OWN_X86
    if (OWN_KEPT_PAIRS && j->f->product.tiles) {
        own_tiles_begin();
        unit_run(j, unit);
        own_tiles_end();
        return;
    }
#endif
    unit_run(j, unit);
}

void flash_run(const struct flash *f, const struct flash_data *data, void *scratch, struct run *r)
{
    struct flash_job j = {.f = f, .d = data, .blocks = (f->queries + f->block - 1) / f->block};
    j.heads = scratch;
    j.rooms = j.heads + f->batch * f->kv_heads * head_words(f);
    parallel(r, pack_task, &j, f->batch * f->kv_heads);
    parallel(r, flash_task, &j, f->batch * f->heads * j.blocks);
}
