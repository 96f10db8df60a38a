/* slice.c - parts of tensors: strided slices with all their masks, slices by begin and size, reversal. */
#include "import/build/tensorflow.h"

#include <string.h>

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

/* x[i], x[i, k, ...] with computed places: what they pick has a shape that does not depend on them. */
static uint32_t picked(struct build *b, uint32_t x, const struct placed *p, uint32_t begin)
{
    uint32_t places = build_cast(b, begin, PEN_DTYPE_I64), y = x;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t in[] = {y, build_reshape(b, build_slice(b, places, 0, p->item[i], p->item[i] + 1, 1), NULL, 0)};
        y = build_axis_op(b, OP_Gather, in, 2, 0);
    }
    return y;
}

/* Every entry picks one place of the axes from the first on. */
static bool picks_all(const struct placed *p, const struct tf_masks *m, uint32_t n)
{
    bool all = p->count == n && p->squeezes == n;
    for (uint32_t i = 0; all && i < n; i++)
        all = p->axis[i] == (int64_t)i;
    return all && m->new_axis == 0 && n > 0;
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
    if (!known && picks_all(&p, masks, n))
        return picked(b, x, &p, begin);
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
