/* Sparse weights: dimensions in traversal order (block dimensions last), each dense or compressed as segments and indices. Source: the schema's notes. */
#include <string.h>

#include "import/tflite/reader.h"

enum { SPARSITY_ORDER = 0, SPARSITY_BLOCKS = 1, SPARSITY_DIMS = 2 };
enum { DIM_FORMAT = 0, DIM_SIZE = 1, DIM_SEGMENTS_TYPE = 2, DIM_SEGMENTS = 3, DIM_INDICES_TYPE = 4, DIM_INDICES = 5 };

#define LEVELS_MAX (2 * PEN_MAX_RANK)
#define STEPS_MAX  (UINT64_C(1) << 31)

struct level {
    bool compressed;
    int64_t size;                     /* dense: positions; compressed: the dense extent */
    struct fb_list segments, indices; /* compressed */
    uint32_t axis;                    /* of the tensor */
    int64_t step;                     /* elements of that axis one position stands for */
};

struct densify {
    struct level levels[LEVELS_MAX];
    uint32_t count;
    const struct tensor *t;
    size_t item_bytes;
    uint64_t have, steps; /* values there; positions looked at: overlapping segments would unfold without end */
    uint8_t *to;
    const uint8_t *from;
    bool broken;
};

/* Int32Vector, Uint16Vector, Uint8Vector: union members 1, 2, 3. */
static struct fb_list index_list(const struct fb_table *dim, unsigned type_field, unsigned field)
{
    static const uint32_t bytes[] = {0, 4, 2, 1};
    uint64_t type = fb_uint(dim, type_field, 1, 0);
    struct fb_table vector = fb_child(dim, field);
    if (type < 1 || type > 3)
        return (struct fb_list){.f = dim->f};
    return fb_vector(&vector, 0, bytes[type]);
}

static int64_t index_at(const struct fb_list *l, uint64_t index)
{
    if (index >= l->count)
        return -1;
    int64_t value = fb_list_int(l, (uint32_t)index);
    return l->item_bytes == 4 ? value : value & (l->item_bytes == 2 ? 0xFFFF : 0xFF);
}

/* Walks level by level; `at`: position per axis in elements; `node`: position within the level's parent. Depth is bounded by LEVELS_MAX. */
static void walk(struct densify *d, uint32_t depth, uint64_t node, int64_t *at)
{
    if (d->broken)
        return;
    if (depth == d->count) {
        int64_t flat = 0;
        for (int32_t i = 0; i < d->t->shape.rank; i++) {
            if (at[i] >= d->t->shape.dim[i]) {
                d->broken = true;
                return;
            }
            flat = flat * d->t->shape.dim[i] + at[i];
        }
        if (node >= d->have) {
            d->broken = true;
            return;
        }
        memcpy(d->to + (size_t)flat * d->item_bytes, d->from + (size_t)node * d->item_bytes, d->item_bytes);
        return;
    }
    const struct level *l = &d->levels[depth];
    int64_t base = at[l->axis];
    int64_t first = 0, last = l->size;
    if (l->compressed) {
        first = index_at(&l->segments, node);
        last = index_at(&l->segments, node + 1);
        if (first < 0 || last < first || last > (int64_t)l->indices.count) {
            d->broken = true;
            return;
        }
    }
    for (int64_t i = first; i < last && !d->broken; i++) {
        d->broken = d->steps++ > STEPS_MAX;
        int64_t place = l->compressed ? index_at(&l->indices, (uint64_t)i) : i;
        if (place < 0 || place >= l->size) {
            d->broken = true;
            break;
        }
        at[l->axis] = base + place * l->step;
        walk(d, depth + 1, l->compressed ? (uint64_t)i : node * (uint64_t)l->size + (uint64_t)i, at);
    }
    at[l->axis] = base;
}

static bool levels_read(const struct fb_table *sparsity, const struct tensor *t, struct densify *d)
{
    struct fb_list order = fb_vector(sparsity, SPARSITY_ORDER, 4), blocks = fb_vector(sparsity, SPARSITY_BLOCKS, 4),
                   dims = fb_vector(sparsity, SPARSITY_DIMS, 4);
    uint32_t rank = (uint32_t)t->shape.rank;
    int64_t block[PEN_MAX_RANK], seen = 0, positions = 1;
    if (order.count != dims.count || order.count != rank + blocks.count || order.count > LEVELS_MAX)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        block[i] = 1;
    d->count = order.count;
    for (uint32_t i = 0; i < d->count; i++) {
        struct fb_table dim = fb_list_table(&dims, i);
        struct level *l = &d->levels[i];
        int64_t which = fb_list_int(&order, i);
        if (which < 0 || which >= (int64_t)d->count || (seen >> which & 1))
            return false;
        seen |= INT64_C(1) << which;
        l->axis = (uint32_t)which;
        l->step = 1;
        if (which >= (int64_t)rank) {
            int64_t axis = fb_list_int(&blocks, (uint32_t)which - rank);
            if (axis < 0 || axis >= (int64_t)rank)
                return false;
            l->axis = (uint32_t)axis;
        }
        l->compressed = fb_int(&dim, DIM_FORMAT, 1, 0) == 1;
        l->size = fb_int(&dim, DIM_SIZE, 4, 0);
        if (l->compressed) {
            l->segments = index_list(&dim, DIM_SEGMENTS_TYPE, DIM_SEGMENTS);
            l->indices = index_list(&dim, DIM_INDICES_TYPE, DIM_INDICES);
            l->size = t->shape.dim[l->axis];
        } else if (__builtin_mul_overflow(positions, l->size, &positions) || positions > INT32_MAX) {
            return false;
        }
        if (l->size < 0 || (which >= (int64_t)rank && l->compressed))
            return false;
        if (which >= (int64_t)rank)
            block[l->axis] *= l->size;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        if (fb_list_int(&order, i) < (int64_t)rank)
            d->levels[i].step = block[d->levels[i].axis];
    }
    return true;
}

enum pen_status lite_densify(struct scope *s, const struct fb_table *table, struct tensor *t)
{
    struct fb_table sparsity = fb_child(table, TENSOR_SPARSITY);
    struct densify d = {.t = t, .item_bytes = pen_dtype_bits(t->dtype) / 8, .from = t->data};
    size_t need = 0;
    int64_t at[PEN_MAX_RANK] = {0};
    enum pen_status status = shape_bytes(&t->shape, t->dtype, s->b->g->limits.tensor_bytes, &need);
    if (status == PEN_OK && need > s->b->g->limits.folded_bytes) {
        build_stop(s->b, PEN_ERR_TOO_LARGE, "a sparse tensor takes %zu bytes when dense, over the budget of %llu", need,
                   (unsigned long long)s->b->g->limits.folded_bytes);
        return s->b->status;
    }
    if (status != PEN_OK || d.item_bytes == 0 || !levels_read(&sparsity, t, &d)) {
        build_stop(s->b, PEN_ERR_CORRUPT, "a sparse tensor's description does not fit its shape");
        return s->b->status;
    }
    d.have = t->bytes / d.item_bytes;
    d.to = graph_alloc(s->b->g, need + 64);
    if (!d.to) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a sparse tensor of %zu bytes", need);
        return s->b->status;
    }
    walk(&d, 0, 0, at);
    if (d.broken || s->r->f->broken)
        build_stop(s->b, PEN_ERR_CORRUPT, "a sparse tensor's segments or indices lead outside it");
    t->data = d.to;
    t->bytes = need;
    return s->b->status;
}
