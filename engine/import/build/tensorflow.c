#include "import/build/tensorflow.h"

#include <string.h>

#define SPLIT_MAX 256

/* ---- slices ---------------------------------------------------------------------------------------------------------- */

/* One entry of a strided slice's specification, placed: axes before an ellipsis count from the front, those behind it from the end. */
struct placed {
    int64_t axis[PEN_MAX_RANK];
    uint32_t item[PEN_MAX_RANK]; /* index into begin, end, strides */
    uint32_t count;
    int64_t squeeze[PEN_MAX_RANK], add[PEN_MAX_RANK];
    uint32_t squeezes, adds;
};

static bool has(int64_t mask, uint32_t bit)
{
    return (mask >> bit & 1) != 0;
}

static void place(const struct tf_masks *m, uint32_t n, struct placed *p)
{
    uint32_t dot = n;
    int64_t in_behind = 0, out_behind = 0, in = 0, out = 0;
    for (uint32_t i = 0; i < n && dot == n; i++)
        dot = has(m->ellipsis, i) ? i : n;
    for (uint32_t i = dot + 1; i < n; i++) {
        in_behind += has(m->new_axis, i) ? 0 : 1;
        out_behind += !has(m->new_axis, i) && has(m->shrink, i) ? 0 : 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i == dot) {
            in = -in_behind;
            out = -out_behind;
            continue;
        }
        if (has(m->new_axis, i)) {
            p->add[p->adds++] = out++;
            continue;
        }
        p->axis[p->count] = in;
        p->item[p->count++] = i;
        if (has(m->shrink, i))
            p->squeeze[p->squeezes++] = in;
        else
            out++;
        in++;
    }
}

/* Limits of a slice as constants. */
static uint32_t slice_constant(struct build *b, uint32_t x, const struct placed *p, const struct tf_masks *m,
                               const int64_t *begin, const int64_t *end, const int64_t *step)
{
    int64_t from[PEN_MAX_RANK], to[PEN_MAX_RANK], by[PEN_MAX_RANK];
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t at = p->item[i];
        by[i] = has(m->shrink, at) ? 1 : step[at];
        from[i] = has(m->begin, at) && !has(m->shrink, at) ? (by[i] > 0 ? 0 : INT64_MAX) : begin[at];
        to[i] = has(m->end, at) ? (by[i] > 0 ? INT64_MAX : INT64_MIN) : end[at];
        if (has(m->shrink, at))
            to[i] = from[i] == -1 || from[i] == INT64_MAX ? INT64_MAX : from[i] + 1;
    }
    uint32_t in[] = {x, build_i64(b, from, p->count), build_i64(b, to, p->count), build_i64(b, p->axis, p->count),
                     build_i64(b, by, p->count)};
    return build_op(b, OP_Slice, in, 5);
}

/* where[i] ? fixed[i] : items[at[i]] for int64 lists. */
static uint32_t chosen(struct build *b, uint32_t items, const uint8_t *where, const int64_t *fixed, uint32_t count)
{
    int64_t dim = count;
    struct shape shape = shape_of(1, &dim);
    uint32_t mask = build_const(b, PEN_DTYPE_BOOL, &shape, where, count, true);
    return build_3(b, OP_Where, mask, build_i64(b, fixed, count), items);
}

/* Limits that are computed at run time. */
static uint32_t slice_computed(struct build *b, uint32_t x, const struct placed *p, const struct tf_masks *m,
                               uint32_t begin, uint32_t end, const int64_t *step)
{
    int64_t at[PEN_MAX_RANK], from[PEN_MAX_RANK], to[PEN_MAX_RANK], by[PEN_MAX_RANK], one = 1, last = -1;
    uint8_t open[PEN_MAX_RANK], till[PEN_MAX_RANK], single[PEN_MAX_RANK];
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t k = p->item[i];
        at[i] = k;
        single[i] = has(m->shrink, k);
        by[i] = single[i] ? 1 : step[k];
        open[i] = has(m->begin, k) && !single[i];
        till[i] = has(m->end, k);
        from[i] = by[i] > 0 ? 0 : INT64_MAX;
        to[i] = by[i] > 0 ? INT64_MAX : INT64_MIN;
    }
    uint32_t order = build_i64(b, at, p->count);
    uint32_t low = build_2(b, OP_Gather, build_cast(b, begin, PEN_DTYPE_I64), order);
    uint32_t high = build_2(b, OP_Gather, build_cast(b, end, PEN_DTYPE_I64), order);
    low = chosen(b, low, open, from, p->count);
    high = chosen(b, high, till, to, p->count);
    uint32_t next = build_2(b, OP_Add, low, build_i64(b, &one, 1));
    uint32_t is_last = build_2(b, OP_Equal, low, build_i64(b, &last, 1));
    next = build_3(b, OP_Where, is_last, build_i64(b, &(int64_t){INT64_MAX}, 1), next);
    int64_t dim = p->count;
    struct shape shape = shape_of(1, &dim);
    uint32_t mask = build_const(b, PEN_DTYPE_BOOL, &shape, single, p->count, true);
    high = build_3(b, OP_Where, mask, next, high);
    uint32_t in[] = {x, low, high, build_i64(b, p->axis, p->count), build_i64(b, by, p->count)};
    return build_op(b, OP_Slice, in, 5);
}

uint32_t tf_strided_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t end, uint32_t strides,
                          const struct tf_masks *masks)
{
    int64_t from[PEN_MAX_RANK], to[PEN_MAX_RANK], step[PEN_MAX_RANK];
    uint32_t n = 0, n_from = 0, n_to = 0;
    struct placed p = {0};
    if (!build_ints_of(b, strides, step, PEN_MAX_RANK, &n)) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "the strides of a slice must be constant, at most %d", PEN_MAX_RANK);
        return VALUE_NONE;
    }
    place(masks, n, &p);
    for (uint32_t i = 0; i < n; i++) {
        if (step[i] == 0)
            build_stop(b, PEN_ERR_INVALID, "a slice has stride 0");
    }
    uint32_t y = x;
    bool known = build_ints_of(b, begin, from, PEN_MAX_RANK, &n_from) && build_ints_of(b, end, to, PEN_MAX_RANK, &n_to);
    if (known && (n_from != n || n_to != n))
        build_stop(b, PEN_ERR_INVALID, "begin, end and strides of a slice differ in length");
    if (p.count > 0)
        y = known ? slice_constant(b, x, &p, masks, from, to, step) : slice_computed(b, x, &p, masks, begin, end, step);
    if (p.squeezes > 0)
        y = build_2(b, OP_Squeeze, y, build_i64(b, p.squeeze, p.squeezes));
    if (p.adds > 0)
        y = build_2(b, OP_Unsqueeze, y, build_i64(b, p.add, p.adds));
    return y;
}

uint32_t tf_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t size)
{
    int64_t from[PEN_MAX_RANK], count[PEN_MAX_RANK], to[PEN_MAX_RANK];
    uint32_t n = 0, m = 0;
    if (build_ints_of(b, begin, from, PEN_MAX_RANK, &n) && build_ints_of(b, size, count, PEN_MAX_RANK, &m) && n == m) {
        for (uint32_t i = 0; i < n; i++) {
            if (from[i] < 0 || count[i] < -1 || from[i] > INT32_MAX || count[i] > INT32_MAX)
                build_stop(b, PEN_ERR_INVALID, "a slice begins at %lld and is %lld long", (long long)from[i],
                           (long long)count[i]);
            else
                to[i] = count[i] < 0 ? INT64_MAX : from[i] + count[i];
        }
        if (b->status != PEN_OK)
            return VALUE_NONE;
        return build_3(b, OP_Slice, x, build_i64(b, from, n), build_i64(b, to, n));
    }
    uint32_t low = build_cast(b, begin, PEN_DTYPE_I64), items = build_cast(b, size, PEN_DTYPE_I64);
    uint32_t zero = build_i64_scalar(b, 0);
    uint32_t rest = build_2(b, OP_Less, items, zero);
    uint32_t high = build_3(b, OP_Where, rest, build_i64_scalar(b, INT64_MAX), build_2(b, OP_Add, low, items));
    return build_3(b, OP_Slice, x, low, high);
}

uint32_t tf_reverse(struct build *b, uint32_t x, int64_t axis)
{
    return build_slice(b, x, axis, INT64_MAX, INT64_MIN, -1);
}

/* ---- images ------------------------------------------------------------------------------------------------------------- */

uint32_t tf_resize(struct build *b, uint32_t x, uint32_t size, bool nearest, bool align_corners, bool half_pixel)
{
    static const int64_t axes[] = {1, 2};
    int64_t sizes[2];
    uint32_t n = 0;
    uint32_t wide = build_ints_of(b, size, sizes, 2, &n) ? build_i64(b, sizes, n) : build_cast(b, size, PEN_DTYPE_I64);
    uint32_t in[] = {x, VALUE_NONE, VALUE_NONE, wide};
    uint32_t y = build_op(b, OP_Resize, in, 4);
    build_ints(b, ATTR_axes, axes, 2);
    build_text(b, ATTR_mode, nearest ? "nearest" : "linear");
    build_text(b, ATTR_coordinate_transformation_mode,
               align_corners ? "align_corners"
               : half_pixel  ? "half_pixel"
                             : "asymmetric");
    if (nearest) /* floor((i + 0.5) * scale) is half_pixel rounded with ties up */
        build_text(b, ATTR_nearest_mode, align_corners || half_pixel ? "round_prefer_ceil" : "floor");
    return y;
}

/* ---- blocks of space and batch: every reshape splits or merges at the end of the shape, so that other sizes may stay unknown --------- */

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

/* ---- padding ------------------------------------------------------------------------------------------------------------------ */

/* Mirrors that repeat the edge: turned slices joined at both ends, axis by axis. */
static uint32_t pad_symmetric(struct build *b, uint32_t x, const int64_t *pads, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t parts[3], count = 0;
        if (pads[2 * i] > 0)
            parts[count++] = tf_reverse(b, build_slice(b, x, i, 0, pads[2 * i], 1), i);
        parts[count++] = x;
        if (pads[2 * i + 1] > 0)
            parts[count++] = tf_reverse(b, build_slice(b, x, i, -pads[2 * i + 1], INT64_MAX, 1), i);
        if (count > 1)
            x = build_axis_op(b, OP_Concat, parts, count, i);
    }
    return x;
}

uint32_t tf_pad(struct build *b, uint32_t x, uint32_t paddings, const char *mode, uint32_t value)
{
    int64_t pads[2 * PEN_MAX_RANK], turned[2 * PEN_MAX_RANK];
    uint32_t count = 0, list;
    bool known = build_ints_of(b, paddings, pads, 2 * PEN_MAX_RANK, &count) && count % 2 == 0;
    for (uint32_t i = 0; known && i < count / 2; i++) {
        turned[i] = pads[2 * i];
        turned[count / 2 + i] = pads[2 * i + 1];
        if (pads[2 * i] < 0 || pads[2 * i + 1] < 0 || pads[2 * i] > INT32_MAX || pads[2 * i + 1] > INT32_MAX)
            build_stop(b, PEN_ERR_INVALID, "paddings of %lld and %lld", (long long)pads[2 * i],
                       (long long)pads[2 * i + 1]);
    }
    if (strcmp(mode, "symmetric") == 0) {
        if (known)
            return pad_symmetric(b, x, pads, count / 2);
        build_stop(b, PEN_ERR_UNSUPPORTED, "symmetric paddings must be constant");
        return VALUE_NONE;
    }
    if (known) {
        list = build_i64(b, turned, count);
    } else {
        static const int64_t perm[] = {1, 0}, flat[] = {-1};
        list = build_transpose(b, build_cast(b, paddings, PEN_DTYPE_I64), perm, 2);
        list = build_2(b, OP_Reshape, list, build_i64(b, flat, 1));
    }
    uint32_t y = build_3(b, OP_Pad, x, list, value);
    build_text(b, ATTR_mode, mode);
    return y;
}

/* ---- arithmetic ----------------------------------------------------------------------------------------------------------------- */

uint32_t tf_floor_mod(struct build *b, uint32_t x, uint32_t y, bool integers)
{
    if (integers)
        return build_2(b, OP_Mod, x, y);
    uint32_t times = build_1(b, OP_Floor, build_2(b, OP_Div, x, y));
    return build_2(b, OP_Sub, x, build_2(b, OP_Mul, times, y));
}

uint32_t tf_floor_div(struct build *b, uint32_t x, uint32_t y, bool integers)
{
    if (!integers)
        return build_1(b, OP_Floor, build_2(b, OP_Div, x, y));
    uint32_t exact = build_2(b, OP_Sub, x, build_2(b, OP_Mod, x, y)); /* Mod takes the divisor's sign */
    return build_2(b, OP_Div, exact, y);
}

/* atan(y / x), moved by pi where x is negative. */
uint32_t tf_atan2(struct build *b, uint32_t y, uint32_t x)
{
    uint32_t zero = build_f32_scalar(b, 0.0f), pi = build_f32_scalar(b, 3.14159265358979f);
    uint32_t minus_pi = build_f32_scalar(b, -3.14159265358979f), half = build_f32_scalar(b, 1.57079632679490f);
    uint32_t plain = build_1(b, OP_Atan, build_2(b, OP_Div, y, x));
    uint32_t turn = build_3(b, OP_Where, build_2(b, OP_Less, y, zero), minus_pi, pi);
    turn = build_3(b, OP_Where, build_2(b, OP_Less, x, zero), turn, zero);
    uint32_t upright = build_2(b, OP_Mul, build_1(b, OP_Sign, y), half);
    uint32_t moved = build_2(b, OP_Add, plain, turn);
    return build_3(b, OP_Where, build_2(b, OP_Equal, x, zero), upright, moved);
}

uint32_t tf_squared_difference(struct build *b, uint32_t x, uint32_t y)
{
    uint32_t d = build_2(b, OP_Sub, x, y);
    return build_2(b, OP_Mul, d, d);
}

uint32_t tf_rsqrt(struct build *b, uint32_t x)
{
    return build_1(b, OP_Reciprocal, build_1(b, OP_Sqrt, x));
}

/* x / sqrt(max(sum(x^2), epsilon)) */
uint32_t tf_l2_normalise(struct build *b, uint32_t x, int64_t axis, float epsilon)
{
    uint32_t sum = build_reduce(b, OP_ReduceSumSquare, x, build_i64(b, &axis, 1), true);
    uint32_t floor = build_2(b, OP_Max, sum, build_f32_scalar(b, epsilon));
    return build_2(b, OP_Div, x, build_1(b, OP_Sqrt, floor));
}

static uint32_t adjoint(struct build *b, uint32_t x, int32_t rank)
{
    int64_t perm[PEN_MAX_RANK];
    if (rank < 2) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "a transposed factor of unknown rank");
        return VALUE_NONE;
    }
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    return build_transpose(b, x, perm, (uint32_t)rank);
}

uint32_t tf_matmul(struct build *b, uint32_t x, uint32_t y, bool adjoint_x, bool adjoint_y, int32_t rank_x,
                   int32_t rank_y)
{
    if (adjoint_x)
        x = adjoint(b, x, rank_x);
    if (adjoint_y)
        y = adjoint(b, y, rank_y);
    return build_2(b, OP_MatMul, x, y);
}

/* ---- moving data ------------------------------------------------------------------------------------------------------------------- */

/* An axis behind the batch: it is moved there, and what lay between is moved back in front of the picked places. */
static uint32_t gather_behind(struct build *b, uint32_t x, uint32_t indices, int64_t axis, int64_t batch)
{
    int32_t rank = build_rank(b, x), picks = build_rank(b, indices);
    int64_t perm[PEN_MAX_RANK], back[2 * PEN_MAX_RANK], n = 0, between = axis - batch;
    axis += axis < 0 ? rank : 0;
    if (rank < 1 || picks < 0 || batch < 0 || batch > axis || axis >= rank || rank + picks > PEN_MAX_RANK) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "a gather along axis %lld with %lld batch dimensions", (long long)axis,
                   (long long)batch);
        return VALUE_NONE;
    }
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < batch || i > axis ? i : i == batch ? axis : i - 1;
    uint32_t y = tf_gather(b, build_transpose(b, x, perm, (uint32_t)rank), indices, batch, batch);
    for (int64_t i = 0; i < batch; i++)
        back[n++] = i;
    for (int64_t i = 0; i < between; i++)
        back[n++] = picks + i;
    for (int64_t i = batch; i < picks; i++)
        back[n++] = i;
    for (int64_t i = picks + between; i < rank - 1 + picks - batch; i++)
        back[n++] = i;
    return build_transpose(b, y, back, (uint32_t)n);
}

uint32_t tf_gather(struct build *b, uint32_t x, uint32_t indices, int64_t axis, int64_t batch_dims)
{
    uint32_t in[] = {x, indices};
    if (batch_dims == 0)
        return build_axis_op(b, OP_Gather, in, 2, axis);
    if (axis != batch_dims || batch_dims < 0)
        return gather_behind(b, x, indices, axis, batch_dims);
    uint32_t wide = build_cast(b, indices, PEN_DTYPE_I64); /* GatherND takes int64 only */
    uint32_t y = build_2(b, OP_GatherND, x, build_unsqueeze(b, wide, -1));
    build_int(b, ATTR_batch_dims, batch_dims);
    return y;
}

uint32_t tf_split_sizes(struct build *b, uint32_t x, uint32_t sizes, int64_t axis)
{
    int64_t items[SPLIT_MAX];
    uint32_t count = 0, zero = build_i64_scalar(b, 0);
    bool known = build_ints_of(b, sizes, items, SPLIT_MAX, &count), rest = !known;
    for (uint32_t i = 0; i < count; i++)
        rest |= items[i] < 0;
    uint32_t wide = known ? build_i64(b, items, count) : build_cast(b, sizes, PEN_DTYPE_I64);
    if (!rest)
        return wide;
    uint32_t pick[] = {build_1(b, OP_Shape, x), build_i64_scalar(b, axis)},
             whole = build_axis_op(b, OP_Gather, pick, 2, 0);
    uint32_t given =
        build_reduce(b, OP_ReduceSum, build_2(b, OP_Max, wide, zero), build_i64(b, (int64_t[]){0}, 1), false);
    return build_3(b, OP_Where, build_2(b, OP_Less, wide, zero), build_2(b, OP_Sub, whole, given), wide);
}

uint32_t tf_pack(struct build *b, const uint32_t *parts, uint32_t count, int64_t axis)
{
    uint32_t *wide = graph_alloc(b->g, ((size_t)count + 1) * sizeof *wide);
    if (!wide || count == 0) {
        build_stop(b, wide ? PEN_ERR_INVALID : PEN_ERR_NO_MEMORY, "nothing to stack");
        return VALUE_NONE;
    }
    for (uint32_t i = 0; i < count; i++)
        wide[i] = build_unsqueeze(b, parts[i], axis);
    return count == 1 ? wide[0] : build_axis_op(b, OP_Concat, wide, count, axis);
}

void tf_unpack(struct build *b, uint32_t x, int64_t axis, uint32_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t in[] = {x, build_i64_scalar(b, i)};
        out[i] = build_axis_op(b, OP_Gather, in, 2, axis);
    }
}

uint32_t tf_shape(struct build *b, uint32_t x, enum pen_dtype dtype)
{
    uint32_t shape = build_1(b, OP_Shape, x);
    return dtype == PEN_DTYPE_I64 ? shape : build_cast(b, shape, dtype);
}

uint32_t tf_fill(struct build *b, uint32_t dims, uint32_t value)
{
    return build_2(b, OP_Expand, value, build_cast(b, dims, PEN_DTYPE_I64));
}

/* Places outside the depth give rows that are off, negative ones too: ours would count from the end. */
uint32_t tf_one_hot(struct build *b, uint32_t indices, uint32_t depth, uint32_t on, uint32_t off, int64_t axis)
{
    static const int64_t one[] = {1};
    enum pen_dtype dtype = build_dtype(b, indices);
    uint32_t parts[] = {build_reshape(b, off, one, 1), build_reshape(b, on, one, 1)},
             wide = build_cast(b, depth, PEN_DTYPE_I64);
    if (dtype != PEN_DTYPE_I64)
        indices = build_cast(b, indices, PEN_DTYPE_I64);
    uint32_t below = build_2(b, OP_Less, indices, build_i64_scalar(b, 0));
    uint32_t in[] = {build_3(b, OP_Where, below, build_reshape(b, wide, NULL, 0), indices), wide,
                     build_axis_op(b, OP_Concat, parts, 2, 0)};
    return build_axis_op(b, OP_OneHot, in, 3, axis);
}

void tf_top_k(struct build *b, uint32_t x, uint32_t k, uint32_t *ret_values, uint32_t *ret_indices)
{
    static const int64_t one[] = {1};
    uint32_t wide = build_2(b, OP_Reshape, build_cast(b, k, PEN_DTYPE_I64), build_i64(b, one, 1));
    uint32_t in[] = {x, wide}, out[2];
    build_many(b, OP_TopK, in, 2, out, 2);
    build_int(b, ATTR_axis, -1);
    *ret_values = out[0];
    *ret_indices = build_cast(b, out[1], PEN_DTYPE_I32);
}

uint32_t tf_non_max_suppression(struct build *b, const struct tf_nms *n, uint32_t *ret_scores)
{
    static const int64_t front[] = {0}, front2[] = {0, 1}, column[] = {2};
    uint32_t in[] = {build_2(b, OP_Unsqueeze, n->boxes, build_i64(b, front, 1)),
                     build_2(b, OP_Unsqueeze, n->scores, build_i64(b, front2, 2)),
                     build_cast(b, n->most, PEN_DTYPE_I64), n->overlap, n->score};
    uint32_t out[2] = {VALUE_NONE, VALUE_NONE}; /* [kept, 3]: batch, class, box; [kept] */
    build_many(b, OP_NonMaxSuppression, in, 5, out, n->sigma > 0.0f ? 2 : 1);
    if (n->sigma > 0.0f)
        build_float(b, ATTR_soft_sigma, n->sigma);
    uint32_t at = build_i64(b, column, 1), pick[] = {out[0], at};
    uint32_t kept = build_cast(b, build_squeeze(b, build_axis_op(b, OP_Gather, pick, 2, 1), 1), PEN_DTYPE_I32);
    uint32_t chosen_scores[] = {n->scores, kept};
    if (ret_scores)
        *ret_scores = out[1] != VALUE_NONE ? out[1] : build_axis_op(b, OP_Gather, chosen_scores, 2, 0);
    return kept;
}
