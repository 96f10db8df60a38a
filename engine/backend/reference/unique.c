/* Unique: distinct elements, or distinct slices along an axis, with where they came from. Source: ONNX. */
#include "backend/reference/raw.h"

#include <stdlib.h>
#include <string.h>

/* One slice during the sort. */
struct entry {
    const struct slices *all;
    int64_t at, group;
};

struct slices {
    const struct rt_value *x;
    int64_t outer, count, inner; /* slice i: elements (o, i, j) */
};

/* Compares element by element: numbers by value, strings by their bytes. */
static int element_order(const struct rt_value *x, int64_t a, int64_t b)
{
    if (x->dtype == PEN_DTYPE_STRING) {
        const struct string_view *s = (const struct string_view *)x->data + a,
                                 *t = (const struct string_view *)x->data + b;
        size_t n = s->bytes < t->bytes ? s->bytes : t->bytes;
        int order = n == 0 ? 0 : memcmp(s->text, t->text, n);
        return order != 0 ? order : (s->bytes > t->bytes) - (s->bytes < t->bytes);
    }
    if (element_class(x->dtype) == ELEMENT_FLOAT) {
        double s = load_one_f64(x->data, x->dtype, a), t = load_one_f64(x->data, x->dtype, b);
        return (s > t) - (s < t);
    }
    int64_t s = load_one_i64(x->data, x->dtype, a), t = load_one_i64(x->data, x->dtype, b);
    if (element_class(x->dtype) == ELEMENT_UNSIGNED) {
        return ((uint64_t)s > (uint64_t)t) - ((uint64_t)s < (uint64_t)t);
    }
    return (s > t) - (s < t);
}

static int slice_order(const struct entry *a, const struct entry *b)
{
    const struct slices *s = a->all;
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        int64_t base = i / s->inner * s->count * s->inner + i % s->inner;
        int order = element_order(s->x, base + a->at * s->inner, base + b->at * s->inner);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = slice_order(x, y);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* Representatives: the first of each group, by value or by place. */
static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorts, numbers the groups in the order asked for. first[g]: first occurrence; inverse[i]: group of slice i; gives the number of groups. */
static int64_t groups_find(struct entry *entries, struct entry *firsts, int64_t count, bool sorted, int64_t *first,
                           int64_t *inverse)
{
    int64_t groups = 0;
    if (count > 0) {
        qsort(entries, (size_t)count, sizeof *entries, by_value);
    }
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || slice_order(&entries[i - 1], &entries[i]) != 0) {
            firsts[groups] = entries[i];
            firsts[groups].group = groups;
            groups++;
        }
        entries[i].group = groups - 1;
    }
    if (!sorted && groups > 0) {
        qsort(firsts, (size_t)groups, sizeof *firsts, by_place);
    }
    for (int64_t g = 0; g < groups; g++) {
        first[g] = firsts[g].at;
    }
    for (int64_t g = 0; g < groups; g++) { /* sorted number -> number asked for; `at` is free now */
        entries[count + firsts[g].group].group = g;
    }
    for (int64_t i = 0; i < count; i++) {
        inverse[entries[i].at] = entries[count + entries[i].group].group;
    }
    return groups;
}

static enum pen_status values_store(struct kernel_call *k, const struct slices *s, const struct shape *in, int32_t axis,
                                    bool flat, const int64_t *first, int64_t groups)
{
    struct shape out = flat ? shape_of(1, &groups) : *in;
    struct raw x, y;
    enum pen_status status = raw_in(k, 0, &x);
    out.dim[flat ? 0 : axis] = groups;
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    size_t run = (size_t)s->inner * x.size;
    for (int64_t o = 0; o < s->outer && status == PEN_OK; o++) {
        for (int64_t g = 0; g < groups; g++) {
            memcpy(y.data + (size_t)(o * groups + g) * run, x.data + (size_t)(o * s->count + first[g]) * run, run);
        }
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

static enum pen_status list_store(struct kernel_call *k, uint32_t index, const int64_t *items, int64_t count)
{
    struct shape shape = shape_of(1, &count);
    if (!kernel_wants(k, index)) {
        return PEN_OK;
    }
    enum pen_status status = kernel_output(k, index, PEN_DTYPE_I64, &shape);
    if (status == PEN_OK && count > 0) {
        memcpy(k->out[index].data, items, (size_t)count * sizeof *items);
    }
    return status;
}

enum pen_status kernel_unique(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    const struct attr *axis_attr = node_attr(k->n, ATTR_axis);
    int32_t axis = 0;
    struct slices s = {&k->in[0], 1, shape_elements(in), 1};
    if (axis_attr != NULL) {
        enum pen_status status = kernel_axis(k, axis_attr->i, in->rank, &axis);
        if (status != PEN_OK) {
            return status;
        }
        s = (struct slices){&k->in[0], dims_product(in, 0, axis), in->dim[axis], dims_product(in, axis + 1, in->rank)};
    }
    size_t n = (size_t)s.count;
    struct entry *entries = kernel_scratch(k, 2 * n * sizeof *entries), *firsts = kernel_scratch(k, n * sizeof *firsts);
    int64_t *first = kernel_scratch(k, n * sizeof *first), *inverse = kernel_scratch(k, n * sizeof *inverse);
    int64_t *counts = kernel_scratch(k, n * sizeof *counts);
    if (entries == NULL || firsts == NULL || first == NULL || inverse == NULL || counts == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to sort %lld entries", (long long)s.count);
    }
    for (int64_t i = 0; i < s.count; i++) {
        entries[i] = (struct entry){&s, i, 0};
        counts[i] = 0;
    }
    int64_t groups = groups_find(entries, firsts, s.count, node_int(k->n, ATTR_sorted, 1) != 0, first, inverse);
    for (int64_t i = 0; i < s.count; i++) {
        counts[inverse[i]]++;
    }
    enum pen_status status = values_store(k, &s, in, axis, axis_attr == NULL, first, groups);
    if (status == PEN_OK) {
        status = list_store(k, 1, first, groups);
    }
    if (status == PEN_OK) {
        status = list_store(k, 2, inverse, s.count);
    }
    return status == PEN_OK ? list_store(k, 3, counts, groups) : status;
}
