#include <string.h>

#include "backend/xnnpack/box.h"
#include "backend/xnnpack/emitters.h"

/* Transpose, Expand, Tile, DepthToSpace, SpaceToDepth, Concat, Split: boxes between their inputs and outputs. Any dtype of whole bytes. */
struct move_box {
    struct box box;
    struct shape part; /* Concat, Split */
    uint32_t in, out;
    size_t x_at, y_at; /* elements */
    bool empty;
};

struct move {
    uint32_t count;
    struct shape whole; /* Concat, Split: with `part`, what bind makes the boxes of */
    struct memory_part *parts;
    bool join;
    struct move_box boxes[];
};

static bool whole_bytes(const struct value *v)
{
    return v == NULL || pen_dtype_bits(v->dtype) >= 8;
}

static bool move_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    if (x == NULL || !whole_bytes(x) || y->dtype != x->dtype) {
        return refuse(ret_reason, "not a type of whole bytes");
    }
    if (n->op == OP_Concat || n->op == OP_Split) {
        int32_t rank = x->shape.rank;
        return (rank > 0 && shape_axis(node_int(n, ATTR_axis, 0), rank) >= 0) ||
               refuse(ret_reason, "axis out of range");
    }
    if (n->op == OP_DepthToSpace || n->op == OP_SpaceToDepth) {
        return (x->shape.rank == 4 && node_int(n, ATTR_blocksize, 0) > 0) ||
               refuse(ret_reason, "not four dims with a block size");
    }
    return true;
}

static enum pen_status move_run(struct step *s, struct run *r)
{
    const struct move *m = s->state;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct move_box *b = &m->boxes[i];
        const uint8_t *from = (const uint8_t *)s->in[b->in] + b->x_at * b->box.size;
        uint8_t *to = (uint8_t *)s->out[b->out] + b->y_at * b->box.size;
        if (!b->empty && s->out[b->out] != NULL && from != to) { /* equal: it lies where it belongs */
            box_copy(&b->box, from, to, r);
        }
    }
    return PEN_OK;
}

static void steps_dense(const struct shape *s, ptrdiff_t *step)
{
    ptrdiff_t run = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        step[d] = run;
        run *= (ptrdiff_t)s->dim[d];
    }
}

/* A box over all of `s`, dense on both sides. */
static struct box box_of(const struct shape *s, size_t size)
{
    struct box b = {.rank = s->rank, .size = size};
    for (int32_t d = 0; d < s->rank; d++) {
        b.dim[d] = (size_t)s->dim[d];
    }
    steps_dense(s, b.x_step);
    steps_dense(s, b.y_step);
    return b;
}

static bool transpose_box(const struct node *n, const struct shape *x, const struct shape *y, struct box *b)
{
    ptrdiff_t step[PEN_MAX_RANK];
    uint32_t count = 0;
    const int64_t *perm = node_ints(n, ATTR_perm, &count);
    steps_dense(x, step);
    if (perm != NULL && count != (uint32_t)x->rank) {
        return false;
    }
    for (int32_t d = 0; d < x->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : x->rank - 1 - d;
        if (from < 0 || from >= x->rank || x->dim[from] != y->dim[d]) {
            return false;
        }
        b->x_step[d] = step[from];
    }
    return true;
}

static bool expand_box(const struct shape *x, const struct shape *y, struct box *b)
{
    ptrdiff_t run = 1;
    if (x->rank > y->rank) {
        return false;
    }
    for (int32_t d = y->rank - 1, k = x->rank - 1; d >= 0; d--, k--) {
        int64_t size = k >= 0 ? x->dim[k] : 1;
        if (size != 1 && size != y->dim[d]) {
            return false;
        }
        b->x_step[d] = size == 1 ? 0 : run;
        run *= (ptrdiff_t)size;
    }
    return true;
}

/* Each dim of the result is [repeats, dim of x]. */
static bool tile_box(const struct shape *x, const struct shape *y, size_t size, struct box *b)
{
    ptrdiff_t xs[PEN_MAX_RANK], ys[PEN_MAX_RANK];
    steps_dense(x, xs);
    steps_dense(y, ys);
    *b = (struct box){.rank = 2 * x->rank, .size = size};
    for (int32_t d = 0; d < x->rank; d++) {
        if (x->dim[d] == 0 || y->dim[d] % x->dim[d] != 0) {
            return false;
        }
        b->dim[2 * d] = (size_t)(y->dim[d] / x->dim[d]);
        b->dim[2 * d + 1] = (size_t)x->dim[d];
        b->x_step[2 * d + 1] = xs[d];
        b->y_step[2 * d] = ys[d] * (ptrdiff_t)x->dim[d];
        b->y_step[2 * d + 1] = ys[d];
    }
    return x->rank == y->rank;
}

/*
 * DepthToSpace: the deep side's channels are [block_h, block_w, c] (DCR) or [c, block_h, block_w] (CRD); SpaceToDepth the other way round. Dims here:
 * batch, h, block_h, w, block_w, c of the wide side.
 */
static bool blocks_box(const struct node *n, const struct shape *deep, const struct shape *wide, bool to_wide,
                       size_t size, struct box *b)
{
    bool last = node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
    int64_t k = node_int(n, ATTR_blocksize, 1), dh = deep->dim[last ? 1 : 2], dw = deep->dim[last ? 2 : 3],
            dc = deep->dim[last ? 3 : 1], c = dc / (k * k);
    if (dc % (k * k) != 0 || shape_elements(deep) != shape_elements(wide) || wide->dim[last ? 3 : 1] != c) {
        return false;
    }
    bool crd = node_text_is(n, ATTR_mode, "CRD", false);
    ptrdiff_t channel = last ? 1 : (ptrdiff_t)(dh * dw), row = (ptrdiff_t)(last ? dw * dc : dw),
              col = (ptrdiff_t)(last ? dc : 1);
    ptrdiff_t bw = channel * (ptrdiff_t)(crd ? 1 : c), bh = bw * (ptrdiff_t)k,
              cs = channel * (ptrdiff_t)(crd ? k * k : 1);
    ptrdiff_t wide_col = (ptrdiff_t)(last ? c : 1), wide_row = wide_col * (ptrdiff_t)(dw * k),
              wide_channel = last ? 1 : (ptrdiff_t)(dh * k * dw * k);
    ptrdiff_t deep_step[6] = {(ptrdiff_t)(dc * dh * dw), row, bh, col, bw, cs};
    ptrdiff_t wide_step[6] = {
        (ptrdiff_t)(dc * dh * dw), wide_row * (ptrdiff_t)k, wide_row, wide_col * (ptrdiff_t)k, wide_col, wide_channel};
    size_t dims[6] = {(size_t)deep->dim[0], (size_t)dh, (size_t)k, (size_t)dw, (size_t)k, (size_t)c};
    /* The destination's order: channels first or last. */
    int order[6] = {0, 1, 2, 3, 4, 5}, first[6] = {0, 5, 1, 2, 3, 4};
    *b = (struct box){.rank = 6, .size = size};
    for (int d = 0; d < 6; d++) {
        int from = last ? order[d] : first[d];
        b->dim[d] = dims[from];
        b->x_step[d] = to_wide ? deep_step[from] : wide_step[from];
        b->y_step[d] = to_wide ? wide_step[from] : deep_step[from];
    }
    return true;
}

static bool one_box(const struct build *b, const struct shape *x, const struct shape *y, size_t size, struct box *box)
{
    *box = box_of(y, size);
    switch (b->n->op) {
    case OP_Transpose:
        return x->rank == y->rank && transpose_box(b->n, x, y, box);
    case OP_Expand:
        return expand_box(x, y, box);
    case OP_Tile:
        return tile_box(x, y, size, box);
    case OP_DepthToSpace:
        return blocks_box(b->n, x, y, true, size, box);
    case OP_SpaceToDepth:
        return blocks_box(b->n, y, x, false, size, box);
    default:
        return false;
    }
}

/* Piece i of a tensor `whole` cut along an axis: the part's own shape, where it starts. */
static bool piece_box(const struct shape *whole, const struct shape *part, int32_t axis, bool join, int64_t *at,
                      size_t size, struct move_box *m)
{
    ptrdiff_t whole_step[PEN_MAX_RANK];
    if (part->rank != whole->rank || *at + part->dim[axis] > whole->dim[axis]) {
        return false;
    }
    for (int32_t d = 0; d < whole->rank; d++) {
        if (d != axis && part->dim[d] != whole->dim[d]) {
            return false;
        }
    }
    steps_dense(whole, whole_step);
    m->box = (struct box){.size = size};
    m->part = *part;
    *(join ? &m->y_at : &m->x_at) = (size_t)(*at * (int64_t)whole_step[axis]);
    m->empty = shape_elements(part) == 0;
    *at += part->dim[axis];
    return true;
}

/* Of a tensor whose rows lie so far apart. */
static void steps_rows(const struct shape *s, size_t row, ptrdiff_t *step)
{
    struct shape wide = *s;
    if (s->rank > 0) {
        wide.dim[s->rank - 1] = (int64_t)row;
    }
    steps_dense(&wide, step);
}

/* Where the parts lie is known. An output of Split that lies in its input is no step's. */
static enum pen_status pieces_bind(struct step *s, struct run *r)
{
    struct move *m = s->state;
    (void)r;
    for (uint32_t i = 0; i < m->count; i++) {
        struct move_box *b = &m->boxes[i];
        const size_t size = b->box.size, axis_step = m->parts[i].offset / size;
        const size_t dense = b->part.rank > 0 ? (size_t)b->part.dim[b->part.rank - 1] : 1;
        const size_t part_row = m->join ? s->in_row[i] : dense, whole_row = m->join ? s->out_row : s->in_row[0];
        b->box = box_of(&b->part, size);
        steps_rows(m->join ? &m->whole : &b->part, m->join ? whole_row : part_row, b->box.y_step);
        steps_rows(m->join ? &b->part : &m->whole, m->join ? part_row : whole_row, b->box.x_step);
        *(m->join ? &b->y_at : &b->x_at) = axis_step;
        box_finish(&b->box);
    }
    return PEN_OK;
}

/* A part is one piece of memory when nothing of other parts lies between; else a piece of each row, when rows are what is cut. */
static void parts_tell(struct build *b, struct move *m, int32_t axis)
{
    int64_t outer = 1;
    for (int32_t d = 0; d < axis; d++) {
        outer *= m->whole.dim[d];
    }
    const bool rows = axis == m->whole.rank - 1 && outer > 1;
    for (uint32_t i = 0; i < m->count; i++) {
        struct move_box *box = &m->boxes[i];
        m->parts[i] = (struct memory_part){(m->join ? box->y_at : box->x_at) * box->box.size, rows};
    }
    if (axis == m->whole.rank - 1 && m->boxes[0].box.size == sizeof(float)) { /* steps over what lies between rows */
        b->rows_in = m->join && m->count < 32 ? (1u << m->count) - 1 : 1;
        b->rows_out = m->join;
    }
    if (outer == 1 || rows) {
        b->parts = m->parts;
        b->in_parts = !m->join;
    }
}

static enum pen_status pieces_build(struct build *b, size_t size)
{
    bool join = b->n->op == OP_Concat;
    uint32_t count = join ? b->n->in_count : b->n->out_count;
    struct move *m = build_alloc(b, sizeof *m + count * sizeof m->boxes[0]);
    if (m == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct shape *whole = join ? &build_out(b, 0)->shape : &build_in(b, 0)->shape;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), whole->rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct fact *part = join ? build_in(b, i) : build_out(b, i);
        struct move_box *box = &m->boxes[i];
        *(join ? &box->in : &box->out) = i;
        if (part == NULL || axis < 0 || !piece_box(whole, &part->shape, axis, join, &at, size, box)) {
            return build_fail(b, PEN_ERR_SHAPE, "the parts do not make up the whole");
        }
    }
    m->count = count;
    m->join = join;
    m->whole = *whole;
    m->parts = build_alloc(b, (count + 1) * sizeof *m->parts);
    if (m->parts == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    parts_tell(b, m, axis);
    b->step->state = m;
    b->step->bind = pieces_bind;
    b->step->run = move_run;
    return join && at != whole->dim[axis] ? build_fail(b, PEN_ERR_SHAPE, "the parts do not fill the whole") : PEN_OK;
}

static enum pen_status move_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *y = build_out(b, 0);
    size_t size = pen_dtype_bits(x->dtype) / 8;
    if (b->n->op == OP_Concat || b->n->op == OP_Split) {
        return pieces_build(b, size);
    }
    struct move *m = build_alloc(b, sizeof *m + sizeof m->boxes[0]);
    if (m == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!one_box(b, &x->shape, &y->shape, size, &m->boxes[0].box)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output do not fit each other");
    }
    box_finish(&m->boxes[0].box);
    m->count = 1;
    b->step->state = m;
    b->step->run = move_run;
    const struct box *box = &m->boxes[0].box;
    b->view = box->rank == 1 && box->x_step[0] == 1 && box->y_step[0] == 1; /* only ones moved */
    return PEN_OK;
}

const struct emitter emit_move = {move_supports, NULL, move_build};
