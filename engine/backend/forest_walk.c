#include "backend/forest_walk.h"

#include <math.h>
#include <string.h>

#define LANES 8

static const uint32_t *roots_of(const struct forest *f)
{
    return (const uint32_t *)(const void *)((const unsigned char *)f + f->root_at);
}

/* Sets are short lists that end with NaN or with the last member. */
static bool in_set(const struct forest *f, uint32_t set, double v)
{
    const unsigned char *block = (const unsigned char *)f;
    const double *member = (const double *)(const void *)(block + f->member_at);
    for (uint32_t i = ((const uint32_t *)(const void *)(block + f->set_at))[set]; i < f->members; i++) {
        if (isnan(member[i]) || member[i] == v) {
            return member[i] == v;
        }
    }
    return false;
}

static inline uint32_t split_bits(const float *split)
{
    uint32_t bits;
    memcpy(&bits, split, sizeof bits);
    return bits;
}

#define REAL       float
#define NODE       struct forest_node
#define ENTRY      struct forest_entry
#define NAME(x)    x##_f32
#define LEAF_OF(n) split_bits(&(n)->split)
#include "backend/forest_walk.inc"

#define REAL       double
#define NODE       struct forest_wide_node
#define ENTRY      struct forest_wide_entry
#define NAME(x)    x##_f64
#define LEAF_OF(n) ((n)->leaf)
#include "backend/forest_walk.inc"

void forest_rows(const struct forest_call *c, size_t from, size_t count)
{
    if (c->f->wide) {
        rows_f64(c, from, count);
    } else {
        rows_f32(c, from, count);
    }
}

void forest_leaves(const struct forest_call *c, size_t row, size_t from, size_t count, uint32_t *leaf)
{
    if (c->f->wide) {
        leaves_f64(c, row, from, count, leaf);
    } else {
        leaves_f32(c, row, from, count, leaf);
    }
}

void forest_add(const struct forest_call *c, size_t row, const uint32_t *leaf)
{
    if (c->f->wide) {
        add_f64(c, row, leaf);
    } else {
        add_f32(c, row, leaf);
    }
}

bool forest_call_of(const struct node *n, const void *forest, size_t forest_bytes, const struct shape *x,
                    struct forest_call *ret, const char **ret_reason)
{
    const struct attr *base = node_attr(n, ATTR_base_values);
    int64_t width = x->rank > 0 ? x->dim[x->rank - 1] : 0;
    *ret = (struct forest_call){.f = forest_of(forest, forest_bytes),
                                .width = (size_t)width,
                                .rows = x->rank > 1 ? (size_t)x->dim[0] : 1,
                                .aggregate = (enum forest_aggregate)node_int(n, ATTR_aggregate_function, FOREST_SUM),
                                .base = base != NULL ? base->floats : NULL,
                                .base_count = base != NULL ? base->count : 0};
    *ret_reason = ret->f == NULL                       ? "the forest is not one that the importer made"
                  : x->rank > 2 || x->rank < 1         ? "the input has another form than rows of features"
                  : (uint64_t)width < ret->f->features ? "the rows have fewer features than the trees ask for"
                                                       : NULL;
    return *ret_reason == NULL;
}
