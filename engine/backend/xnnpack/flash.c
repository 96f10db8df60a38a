#include "backend/xnnpack/flash.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/isa.h"

#define KEYS_BLOCK                                                                                                     \
    256 /* of one round: scores of 56 queries take 56 KiB, packed keys and values of 64 columns 64 KiB each */
#define TILES_UNIT 4 /* row tiles of one unit of work */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Packed keys of one head: panels of `nr` keys; packed values: for each block of keys, panels of `nr` columns. */
static size_t keys_floats(const struct flash *f)
{
    return round_up(f->keys, isa_own()->gemm_nr) * f->size;
}

static size_t values_width(const struct flash *f)
{
    return round_up(f->value_size, isa_own()->gemm_nr);
}

static size_t head_floats(const struct flash *f)
{
    return round_up(keys_floats(f) + f->keys * values_width(f), 16);
}

/* Rows are not a power of two apart, or all of them meet in one cache set. */
static size_t row_floats(size_t n)
{
    return round_up(n, 16) + 16;
}

struct flash_room {
    float *q, *scores, *sums; /* [block][size], [block][keys of a round], [block][value_size] */
    float *largest, *total;   /* [block] */
};

static size_t room_floats(const struct flash *f)
{
    return round_up(f->block * (row_floats(f->size) + row_floats(KEYS_BLOCK) + row_floats(values_width(f)) + 2), 16);
}

static struct flash_room room_of(const struct flash *f, float *at)
{
    struct flash_room r = {.q = at};
    r.scores = r.q + f->block * row_floats(f->size);
    r.sums = r.scores + f->block * row_floats(KEYS_BLOCK);
    r.largest = r.sums + f->block * row_floats(values_width(f));
    r.total = r.largest + f->block;
    return r;
}

void flash_init(struct flash *f, size_t threads)
{
    const size_t mr = isa_own()->gemm_mr;
    size_t tiles = (f->queries + mr - 1) / mr, heads = f->batch * f->heads;
    size_t wanted = heads >= 4 * threads ? 1 : (4 * threads + heads - 1) / (heads > 0 ? heads : 1);
    size_t unit = tiles / wanted;
    f->block = (unit < 1 ? 1 : unit > TILES_UNIT ? TILES_UNIT : unit) * mr;
}

size_t flash_scratch_bytes(const struct flash *f, size_t threads)
{
    size_t heads = f->batch * f->kv_heads;
    return (heads * head_floats(f) + (threads > 0 ? threads : 1) * room_floats(f)) * sizeof(float) + 64;
}

struct flash_job {
    const struct flash *f;
    const struct flash_data *d;
    float *heads, *rooms;
    size_t blocks; /* units of one head */
};

static void pack_task(void *context, size_t unit)
{
    const struct flash_job *j = context;
    const struct flash *f = j->f;
    const size_t b = unit / f->kv_heads, h = unit % f->kv_heads;
    const float *k = j->d->k + b * f->k.batch + h * f->k.head, *v = j->d->v + b * f->v.batch + h * f->v.head;
    float *to = j->heads + unit * head_floats(f);
    dense_pack_into(to, k, f->k.col, f->k.row, f->size, f->keys);
    to += keys_floats(f);
    for (size_t at = 0; at < f->keys; at += KEYS_BLOCK) {
        size_t count = f->keys - at < KEYS_BLOCK ? f->keys - at : KEYS_BLOCK;
        dense_pack_into(to + at * values_width(f), v + at * f->v.row, f->v.row, f->v.col, count, f->value_size);
    }
}

/* y [m, n] = x [m, k] * panels w, or y += ... where it is not the first; rows of x and y beyond m are there up to whole tiles. */
static void product(const struct gemm_tile *all)
{
    const struct own *own = isa_own();
    for (size_t c = 0; c < all->n; c += own->gemm_nr) {
        for (size_t r = 0; r < all->m; r += own->gemm_mr) {
            struct gemm_tile t = *all;
            t.x += r * t.x_stride;
            t.w += c * t.k;
            t.next = t.w;
            t.y += r * t.y_stride + c;
            t.m = all->m - r < own->gemm_mr ? all->m - r : own->gemm_mr;
            t.n = all->n - c < own->gemm_nr ? all->n - c : own->gemm_nr;
            t.bands = 1;
            t.last = true;
            t.min = -INFINITY;
            t.max = INFINITY;
            own->gemm(&t);
        }
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

/* Scores of one row and round become exponentials; the row's sums so far are scaled to the same largest score. */
static void row_shares(const struct flash *f, struct flash_room *room, size_t i, float *scores, size_t n)
{
    const struct own *own = isa_own();
    const float before = room->largest[i], here = own->fold(FOLD_MAX, scores, n);
    const float largest = before > here || before != before ? before : here; /* NaN stays */
    float *sums = room->sums + i * row_floats(values_width(f));
    room->largest[i] = largest;
    if (largest == -INFINITY) { /* nothing seen yet */
        memset(scores, 0, n * sizeof *scores);
        return;
    }
    if (before != largest) {
        const float factor = before == -INFINITY ? 0.0f : expf(before - largest);
        own->affine(sums, sums, f->value_size, 0.0f, factor, NULL, NULL);
        room->total[i] *= factor;
    }
    room->total[i] += own->exp_sum(scores, scores, n, largest);
}

static void queries_load(const struct flash_job *j, const float *q, size_t rows, struct flash_room *room)
{
    const struct flash *f = j->f;
    for (size_t i = 0; i < rows; i++, q += f->q.row) {
        float *to = room->q + i * row_floats(f->size);
        if (f->q.col == 1) {
            isa_own()->affine(q, to, f->size, 0.0f, f->scale, NULL, NULL);
            continue;
        }
        for (size_t c = 0; c < f->size; c++) {
            to[c] = q[c * f->q.col] * f->scale;
        }
    }
}

static void results_store(const struct flash_job *j, float *y, size_t rows, const struct flash_room *room)
{
    const struct flash *f = j->f;
    for (size_t i = 0; i < rows; i++, y += f->y.row) {
        float *sums = room->sums + i * row_floats(values_width(f));
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
    const size_t n = f->keys - key < KEYS_BLOCK ? f->keys - key : KEYS_BLOCK, stride = row_floats(KEYS_BLOCK);
    product(&(struct gemm_tile){.x = room->q,
                                .x_stride = row_floats(f->size),
                                .w = head + key * f->size,
                                .k = f->size,
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
    product(&(struct gemm_tile){.x = room->scores,
                                .x_stride = stride,
                                .w = head + keys_floats(f) + key * values_width(f),
                                .k = n,
                                .n = f->value_size,
                                .y = room->sums,
                                .y_stride = row_floats(values_width(f)),
                                .m = rows});
}

static void flash_task(void *context, size_t unit)
{
    const struct flash_job *j = context;
    const struct flash *f = j->f;
    const size_t at[3] = {unit / j->blocks / f->heads, unit / j->blocks % f->heads, unit % j->blocks * f->block};
    const size_t rows = f->queries - at[2] < f->block ? f->queries - at[2] : f->block;
    const size_t shared = at[1] / (f->heads / f->kv_heads);
    struct flash_room room = room_of(f, j->rooms + team_self() * room_floats(f));
    const float *head = j->heads + (at[0] * f->kv_heads + shared) * head_floats(f);
    memset(room.sums, 0, f->block * row_floats(values_width(f)) * sizeof(float));
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

void flash_run(const struct flash *f, const struct flash_data *data, void *scratch, struct run *r)
{
    struct flash_job j = {.f = f, .d = data, .blocks = (f->queries + f->block - 1) / f->block};
    j.heads = scratch;
    j.rooms = j.heads + f->batch * f->kv_heads * head_floats(f);
    parallel(r, pack_task, &j, f->batch * f->kv_heads);
    parallel(r, flash_task, &j, f->batch * f->heads * j.blocks);
}
