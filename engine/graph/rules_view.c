/* Same bytes, another shape; and permutations. */
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"
#include "words.h"

/* Product of known dims, the unknown ones counted apart. False on overflow. */
static bool known_product(const struct shape *s, const bool *skip, int64_t *ret_product, int32_t *ret_unknown)
{
    *ret_product = 1;
    *ret_unknown = 0;
    for (int32_t i = 0; i < s->rank; i++) {
        if (skip && skip[i])
            continue;
        if (s->dim[i] < 0)
            ++*ret_unknown;
        else if (__builtin_mul_overflow(*ret_product, s->dim[i], ret_product))
            return false;
    }
    return true;
}

/* Fills the -1 of a target shape from what the other axes leave. copied: axes taken over from x, which cancel. */
static enum pen_status fill_rest(struct infer *c, const struct shape *x, struct shape *y, int32_t rest,
                                 const bool *copied, struct pen_error *reterr)
{
    int64_t all, others;
    int32_t unknown_x, unknown_y;
    struct shape y_others = *y;
    bool skip[PEN_MAX_RANK];
    memcpy(skip, copied, sizeof skip);
    if (!known_product(x, copied, &all, &unknown_x))
        return infer_fail(c, reterr, "the input is too large");
    if (rest >= 0) {
        skip[rest] = true;
        y_others.dim[rest] = 1;
    }
    if (!known_product(&y_others, skip, &others, &unknown_y))
        return infer_fail(c, reterr, "the new shape is too large");
    if (unknown_x || unknown_y)
        return PEN_OK; /* nothing to check or fill yet */
    bool fits = rest < 0 ? all == others : (others > 0 ? all % others == 0 : all == 0);
    if (!fits) {
        char from[96], to[96];
        return infer_fail(c, reterr, "%s does not reshape to %s", shape_text(x, from, sizeof from),
                          shape_text(y, to, sizeof to));
    }
    if (rest >= 0)
        y->dim[rest] = others > 0 ? all / others : 0;
    return PEN_OK;
}

static enum pen_status reshape_to(struct infer *c, const int64_t *dims, size_t count, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = shape_of((int32_t)count, dims);
    bool allow_zero = node_int(c->n, ATTR_allowzero, 0) != 0, copied[PEN_MAX_RANK] = {0};
    int32_t rest = -1;
    for (int32_t i = 0; i < y.rank; i++) {
        if (y.dim[i] == -1 && rest < 0) {
            rest = i;
        } else if (y.dim[i] < 0) {
            return infer_fail(c, reterr, "the new shape has %s",
                              y.dim[i] == -1 ? "more than one -1" : "a negative size");
        } else if (y.dim[i] == 0 && !allow_zero) {
            if (x->rank >= 0 && i >= x->rank)
                return infer_fail(c, reterr, "the new shape copies axis %d, which the input does not have", i);
            y.dim[i] = x->rank >= 0 ? x->dim[i] : SHAPE_DIM_UNKNOWN;
            copied[i] = x->rank >= 0 && y.dim[i] != 0;
        }
    }
    enum pen_status status = PEN_OK;
    if (x->rank >= 0)
        status = fill_rest(c, x, &y, rest, copied, reterr);
    if (status == PEN_OK)
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return status;
}

enum pen_status infer_reshape(struct infer *c, struct pen_error *reterr)
{
    int64_t dims[PEN_MAX_RANK];
    size_t count;
    const struct shape *list = infer_shape_of(c, 1);
    int got = infer_ints(c, 1, dims, PEN_MAX_RANK, &count);
    if (got < 0 || list->rank > 1 || (list->rank == 1 && list->dim[0] > PEN_MAX_RANK))
        return infer_fail(c, reterr, "the new shape must be a list of at most %d numbers", PEN_MAX_RANK);
    if (got == 1)
        return reshape_to(c, dims, count, reterr);
    struct shape y = shape_unknown();
    if (list->rank == 1 && list->dim[0] >= 0)
        y = infer_unknown_of_rank((int32_t)list->dim[0]);
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_flatten(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(2);
    if (x->rank >= 0) {
        int64_t axis = node_int(c->n, ATTR_axis, 1);
        if (axis < -(int64_t)x->rank || axis > x->rank)
            return infer_fail(c, reterr, "axis %lld is out of range", (long long)axis);
        int32_t cut = (int32_t)(axis < 0 ? axis + x->rank : axis);
        struct shape head = shape_of(cut, x->dim), tail = shape_of(x->rank - cut, x->dim + cut);
        y.dim[0] = shape_elements(&head);
        y.dim[1] = shape_elements(&tail);
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_squeeze(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = {.rank = 0};
    bool marked[PEN_MAX_RANK] = {0};
    int64_t axes[PEN_MAX_RANK];
    size_t count = 0;
    int got = x->rank < 0 ? 0 : infer_has(c, 1) ? infer_axes(c, 1, x->rank, marked, axes, &count) : 2;
    if (got < 0)
        return infer_fail(c, reterr, "axes are out of range or named twice");
    for (int32_t i = 0; i < x->rank && got > 0; i++) {
        if (got == 2 && x->dim[i] < 0)
            got = 0; /* which axes are 1 is not known */
        else if (got == 2 ? x->dim[i] == 1 : marked[i]) {
            if (x->dim[i] > 1 || x->dim[i] == 0)
                return infer_fail(c, reterr, "axis %d has size %lld, not 1", i, (long long)x->dim[i]);
        } else {
            y.dim[y.rank++] = x->dim[i];
        }
    }
    if (got == 0) {
        const struct shape *list = infer_shape_of(c, 1);
        bool sized = x->rank >= 0 && list->rank == 1 && list->dim[0] >= 0 && list->dim[0] <= x->rank;
        y = sized ? infer_unknown_of_rank(x->rank - (int32_t)list->dim[0]) : shape_unknown();
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_unsqueeze(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *list = infer_shape_of(c, 1);
    struct shape y = shape_unknown();
    bool marked[PEN_MAX_RANK] = {0};
    int64_t axes[PEN_MAX_RANK], more = shape_elements(list);
    size_t count;
    if (x->rank >= 0 && more >= 0) {
        if (x->rank + more > PEN_MAX_RANK)
            return infer_fail(c, reterr, "the result would have more than %d dimensions", PEN_MAX_RANK);
        y = infer_unknown_of_rank(x->rank + (int32_t)more);
        int got = infer_axes(c, 1, y.rank, marked, axes, &count);
        if (got < 0)
            return infer_fail(c, reterr, "axes are out of range or named twice");
        int32_t from = 0;
        for (int32_t i = 0; i < y.rank && got == 1; i++)
            y.dim[i] = marked[i] ? 1 : x->dim[from++];
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_transpose(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    uint32_t count;
    const int64_t *perm = node_ints(c->n, ATTR_perm, &count);
    struct shape y = infer_unknown_of_rank(x->rank);
    bool seen[PEN_MAX_RANK] = {0};
    y.rank = x->rank;
    if (x->rank >= 0 && perm && count != (uint32_t)x->rank)
        return infer_fail(c, reterr, "perm has %u %s, the input has %d %s", count, words_plural(count, "item", "items"),
                          x->rank, words_plural((uint64_t)x->rank, "dimension", "dimensions"));
    if (x->rank < 0 && perm && count <= PEN_MAX_RANK)
        y = infer_unknown_of_rank((int32_t)count);
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t from = perm ? shape_axis(perm[i], x->rank) : x->rank - 1 - i;
        if (from < 0 || seen[from])
            return infer_fail(c, reterr, "perm is not a permutation");
        seen[from] = true;
        y.dim[i] = x->dim[from];
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_expand(struct infer *c, struct pen_error *reterr)
{
    int64_t dims[PEN_MAX_RANK];
    size_t count;
    const struct shape *x = infer_shape_of(c, 0), *list = infer_shape_of(c, 1);
    struct shape y = shape_unknown(), to;
    int got = infer_ints(c, 1, dims, PEN_MAX_RANK, &count);
    if (got < 0)
        return infer_fail(c, reterr, "the new shape must be a list of at most %d numbers", PEN_MAX_RANK);
    if (got == 1) {
        to = shape_of((int32_t)count, dims);
        for (int32_t i = 0; i < to.rank; i++) {
            if (to.dim[i] < 0)
                return infer_fail(c, reterr, "the new shape has a negative size");
        }
        if (!shape_broadcast(x, &to, &y)) {
            char from[96], text[96];
            return infer_fail(c, reterr, "%s does not expand to %s", shape_text(x, from, sizeof from),
                              shape_text(&to, text, sizeof text));
        }
    } else if (x->rank >= 0 && list->rank == 1 && list->dim[0] >= 0 && list->dim[0] <= PEN_MAX_RANK) {
        y = infer_unknown_of_rank(x->rank > list->dim[0] ? x->rank : (int32_t)list->dim[0]);
        for (int32_t i = 0; i < x->rank; i++) { /* only a 1 can grow */
            if (x->dim[i] != 1)
                y.dim[y.rank - x->rank + i] = x->dim[i];
        }
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}
