/*
 * blocks.c - blocks of space moved into the batch and back. Every reshape splits or merges at the end of the shape, so that other sizes may stay unknown.
 */
#include "import/build/tensorflow.h"

#include <string.h>

#define LABEL_BATCH 0 /* then 1..: spatial and the rest as in the data; blocks follow from LABEL_BLOCK */
#define LABEL_BLOCK 16

struct walk {
    uint32_t x;
    int label[PEN_MAX_RANK];
    uint32_t rank;
};

static void arrange(struct build *b, struct walk *w, const int *order)
{
    int64_t perm[PEN_MAX_RANK];
    bool same = true;
    for (uint32_t i = 0; i < w->rank; i++) {
        for (uint32_t k = 0; k < w->rank; k++) {
            if (w->label[k] == order[i])
                perm[i] = k;
        }
        same &= perm[i] == (int64_t)i;
    }
    memcpy(w->label, order, w->rank * sizeof *order);
    if (!same)
        w->x = build_transpose(b, w->x, perm, w->rank);
}

/* Reshape to `keep` axes as they are and the given tail. */
static void retail(struct build *b, struct walk *w, uint32_t keep, const int64_t *tail, uint32_t count)
{
    int64_t dims[PEN_MAX_RANK] = {0};
    memcpy(dims + keep, tail, count * sizeof *tail);
    w->x = build_2(b, OP_Reshape, w->x, build_i64(b, dims, keep + count));
    w->rank = keep + count;
}

/* Order of labels with `last` items moved to the end. */
static void move_last(struct build *b, struct walk *w, const int *last, uint32_t count)
{
    int order[PEN_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        bool moved = false;
        for (uint32_t k = 0; k < count; k++)
            moved |= w->label[i] == last[k];
        if (!moved)
            order[n++] = w->label[i];
    }
    memcpy(order + n, last, count * sizeof *last);
    arrange(b, w, order);
}

static bool block_read(struct build *b, uint32_t block, uint32_t pads, int32_t rank, int64_t *sizes, int64_t *pad,
                       uint32_t *ret_count)
{
    uint32_t pad_count = 0;
    if (!build_ints_of(b, block, sizes, 3, ret_count) || !build_ints_of(b, pads, pad, 6, &pad_count) ||
        pad_count != 2 * *ret_count || rank <= (int32_t)*ret_count || rank + (int32_t)*ret_count > PEN_MAX_RANK) {
        build_stop(b, PEN_ERR_UNSUPPORTED,
                   "block sizes and paddings must be constant and fit the input, whose rank must be known");
        return false;
    }
    for (uint32_t i = 0; i < *ret_count; i++) {
        if (sizes[i] < 1 || sizes[i] > INT32_MAX || pad[2 * i] < 0 || pad[2 * i + 1] < 0) {
            build_stop(b, PEN_ERR_INVALID, "a block of %lld with paddings %lld and %lld", (long long)sizes[i],
                       (long long)pad[2 * i], (long long)pad[2 * i + 1]);
            return false;
        }
    }
    return true;
}

static struct walk walk_of(uint32_t x, int32_t rank)
{
    struct walk w = {.x = x, .rank = (uint32_t)rank};
    for (int32_t i = 0; i < rank; i++)
        w.label[i] = i;
    return w;
}

uint32_t tf_space_to_batch(struct build *b, uint32_t x, uint32_t block, uint32_t paddings, int32_t rank)
{
    int64_t size[3], pad[6], pads[2 * PEN_MAX_RANK] = {0};
    uint32_t n = 0;
    if (b->status != PEN_OK || !block_read(b, block, paddings, rank, size, pad, &n))
        return VALUE_NONE;
    bool padded = false;
    for (uint32_t i = 0; i < n; i++) {
        pads[i + 1] = pad[2 * i];
        pads[(uint32_t)rank + i + 1] = pad[2 * i + 1];
        padded |= pad[2 * i] != 0 || pad[2 * i + 1] != 0;
    }
    if (padded)
        x = build_2(b, OP_Pad, x, build_i64(b, pads, 2 * (uint32_t)rank));
    struct walk w = walk_of(x, rank);
    for (uint32_t i = 0; i < n; i++) {
        int last = (int)i + 1;
        int64_t tail[] = {-1, size[i]};
        move_last(b, &w, &last, 1);
        retail(b, &w, w.rank - 1, tail, 2);
        w.label[w.rank - 1] = LABEL_BLOCK + (int)i;
    }
    int order[PEN_MAX_RANK];
    uint32_t at = 0;
    for (int i = 1; i < rank; i++)
        order[at++] = i;
    for (uint32_t i = 0; i < n; i++)
        order[at++] = LABEL_BLOCK + (int)i;
    order[at] = LABEL_BATCH;
    arrange(b, &w, order);
    retail(b, &w, (uint32_t)rank - 1, &(int64_t){-1}, 1);
    w.label[rank - 1] = LABEL_BATCH;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    arrange(b, &w, order);
    return w.x;
}

static uint32_t crop(struct build *b, uint32_t x, const int64_t *crops, uint32_t n)
{
    int64_t from[3], to[3], axis[3];
    bool cut = false;
    for (uint32_t i = 0; i < n; i++) {
        from[i] = crops[2 * i];
        to[i] = crops[2 * i + 1] == 0 ? INT64_MAX : -crops[2 * i + 1];
        axis[i] = (int64_t)i + 1;
        cut |= crops[2 * i] != 0 || crops[2 * i + 1] != 0;
    }
    if (!cut)
        return x;
    uint32_t in[] = {x, build_i64(b, from, n), build_i64(b, to, n), build_i64(b, axis, n)};
    return build_op(b, OP_Slice, in, 4);
}

uint32_t tf_batch_to_space(struct build *b, uint32_t x, uint32_t block, uint32_t crops, int32_t rank)
{
    int64_t size[3], cut[6], tail[4];
    uint32_t n = 0;
    int batch = LABEL_BATCH, order[PEN_MAX_RANK];
    if (b->status != PEN_OK || !block_read(b, block, crops, rank, size, cut, &n))
        return VALUE_NONE;
    struct walk w = walk_of(x, rank);
    move_last(b, &w, &batch, 1);
    memcpy(tail, size, n * sizeof *size);
    tail[n] = -1;
    retail(b, &w, (uint32_t)rank - 1, tail, n + 1);
    for (uint32_t i = 0; i < n; i++)
        w.label[(uint32_t)rank - 1 + i] = LABEL_BLOCK + (int)i;
    w.label[w.rank - 1] = LABEL_BATCH;
    for (uint32_t i = 0; i < n; i++) {
        int last[] = {(int)i + 1, LABEL_BLOCK + (int)i};
        move_last(b, &w, last, 2);
        retail(b, &w, w.rank - 2, &(int64_t){-1}, 1);
        w.label[w.rank - 1] = (int)i + 1;
    }
    for (int i = 0; i < rank; i++)
        order[i] = i;
    arrange(b, &w, order);
    return crop(b, w.x, cut, n);
}
