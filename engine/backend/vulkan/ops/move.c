#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"

/* Data movement as boxes: Transpose, Concat, Split, Expand, Tile, DepthToSpace, SpaceToDepth. Any element type of whole bytes. */

static bool move_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!vk_movable(x->dtype)) {
        return vk_refuse(ret_reason, "elements smaller than a byte");
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (node_out(g, n, i) != NULL && node_out(g, n, i)->dtype != x->dtype) {
            return vk_refuse(ret_reason, "another type");
        }
    }
    bool shuffle = n->op == OP_DepthToSpace || n->op == OP_SpaceToDepth;
    return !shuffle || (x->shape.rank == 4 && node_int(n, ATTR_blocksize, 0) > 0) ||
           vk_refuse(ret_reason, "not four dims with a block size");
}

/* All of y, dense on both sides: the start of most boxes. */
static struct vk_box box_over(const struct shape *y)
{
    struct vk_box box = {.rank = y->rank};
    vk_dense_steps(y, box.y_step);
    for (int32_t d = 0; d < y->rank; d++) {
        box.dim[d] = (size_t)y->dim[d];
    }
    return box;
}

static void copy(struct vk_build *b, const struct vk_box *box, uint32_t out, uint32_t in)
{
    vk_box_copy(b, box, vk_out_cell(b, out), vk_in_cell(b, in), vk_element_bytes(b, vk_out(b, out)->dtype));
}

static void transpose_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    int64_t steps[PEN_MAX_RANK];
    uint32_t count = 0;
    const int64_t *perm = node_ints(b->n, ATTR_perm, &count);
    struct vk_box box = box_over(y);
    vk_dense_steps(x, steps);
    for (int32_t d = 0; d < y->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : y->rank - 1 - d;
        from = from < 0 ? from + x->rank : from;
        if ((perm != NULL && count != (uint32_t)x->rank) || from < 0 || from >= x->rank || x->dim[from] != y->dim[d]) {
            vk_build_fail(b, PEN_ERR_SHAPE, "perm does not fit the shape");
            return;
        }
        box.x_step[d] = steps[from];
    }
    copy(b, &box, 0, 0);
}

static void expand_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    int64_t steps[PEN_MAX_RANK];
    struct vk_box box = box_over(y);
    vk_dense_steps(x, steps);
    for (int32_t d = 0; d < y->rank; d++) {
        int32_t k = d - (y->rank - x->rank);
        box.x_step[d] = k >= 0 && x->dim[k] != 1 ? steps[k] : 0;
    }
    copy(b, &box, 0, 0);
}

/* Each dim becomes two: the repeat, and the dim itself. More than eight of them: repeated dims only. */
static void tile_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    int64_t x_steps[PEN_MAX_RANK], y_steps[PEN_MAX_RANK];
    struct vk_box box = {0};
    vk_dense_steps(x, x_steps);
    vk_dense_steps(y, y_steps);
    for (int32_t d = 0; d < y->rank; d++) {
        for (int part = 0; part < 2; part++) {
            bool repeat = part == 0;
            size_t dim = (size_t)(repeat ? y->dim[d] / x->dim[d] : x->dim[d]);
            if (dim == 1) {
                continue;
            }
            if (box.rank == PEN_MAX_RANK) {
                vk_build_fail(b, PEN_ERR_UNSUPPORTED, "too many dims");
                return;
            }
            box.dim[box.rank] = dim;
            box.x_step[box.rank] = repeat ? 0 : x_steps[d];
            box.y_step[box.rank++] = repeat ? y_steps[d] * x->dim[d] : y_steps[d];
        }
    }
    copy(b, &box, 0, 0);
}

/* Concat and Split: the whole and its parts along an axis. */
static void parts_build(struct vk_build *b)
{
    bool split = b->n->op == OP_Split;
    const struct shape *whole = split ? &vk_in(b, 0)->shape : &vk_out(b, 0)->shape;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), whole->rank);
    int64_t steps[PEN_MAX_RANK];
    size_t at = 0;
    if (axis < 0) {
        vk_build_fail(b, PEN_ERR_SHAPE, "axis out of range");
        return;
    }
    vk_dense_steps(whole, steps);
    for (uint32_t i = 0; i < (split ? b->n->out_count : b->n->in_count) && b->status == PEN_OK; i++) {
        const struct fact *part = split ? vk_out(b, i) : vk_in(b, i);
        struct vk_box box = box_over(&part->shape);
        for (int32_t d = 0; d < whole->rank; d++) {
            box.x_step[d] = split ? steps[d] : box.y_step[d];
            box.y_step[d] = split ? box.y_step[d] : steps[d];
        }
        box.x_at = split ? at : 0;
        box.y_at = split ? 0 : at;
        at += (size_t)(part->shape.dim[axis] * steps[axis]);
        if (shape_elements(&part->shape) > 0) {
            copy(b, &box, split ? i : 0, split ? 0 : i);
        }
    }
}

static bool parts_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; n->op == OP_Split && i < n->out_count; i++) {
        if (node_out(g, n, i) == NULL) {
            return vk_refuse(ret_reason, "a part that nobody wants");
        }
    }
    const struct value *x = node_in(g, n, 0);
    int32_t rank = x->shape.rank;
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, 0), rank) >= 0) ? move_supports(g, n, ret_reason)
                                                                          : vk_refuse(ret_reason, "axis out of range");
}

/* DepthToSpace and its inverse: six dims n, h, bh, w, bw, c of both sides. */
static void shuffle_build(struct vk_build *b)
{
    bool wide_out = b->n->op == OP_DepthToSpace, last = node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
    const struct shape *deep = wide_out ? &vk_in(b, 0)->shape : &vk_out(b, 0)->shape,
                       *wide = wide_out ? &vk_out(b, 0)->shape : &vk_in(b, 0)->shape;
    int64_t k = node_int(b->n, ATTR_blocksize, 1), dh = deep->dim[last ? 1 : 2], dw = deep->dim[last ? 2 : 3],
            dc = deep->dim[last ? 3 : 1], c = dc / (k * k);
    if (dc % (k * k) != 0 || shape_elements(deep) != shape_elements(wide) || wide->dim[last ? 3 : 1] != c) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the block size does not fit the shapes");
        return;
    }
    bool crd = node_text_is(b->n, ATTR_mode, "CRD", false);
    int64_t channel = last ? 1 : dh * dw, row = last ? dw * dc : dw, col = last ? dc : 1;
    int64_t bw = channel * (crd ? 1 : c), bh = bw * k, cs = channel * (crd ? k * k : 1);
    int64_t wide_col = last ? c : 1, wide_row = wide_col * dw * k, wide_channel = last ? 1 : dh * k * dw * k;
    const int64_t deep_step[6] = {dc * dh * dw, row, bh, col, bw, cs};
    const int64_t wide_step[6] = {dc * dh * dw, wide_row * k, wide_row, wide_col * k, wide_col, wide_channel};
    const int64_t dims[6] = {deep->dim[0], dh, k, dw, k, c};
    const int first[6] = {0, 5, 1, 2, 3, 4}; /* channels first: walk the destination in its order */
    struct vk_box box = {.rank = 6};
    for (int d = 0; d < 6; d++) {
        int from = last ? d : first[d];
        box.dim[d] = (size_t)dims[from];
        box.x_step[d] = wide_out ? deep_step[from] : wide_step[from];
        box.y_step[d] = wide_out ? wide_step[from] : deep_step[from];
    }
    copy(b, &box, 0, 0);
}

const struct vk_op vk_op_transpose = {move_supports, NULL, transpose_build};
const struct vk_op vk_op_expand = {move_supports, NULL, expand_build};
const struct vk_op vk_op_tile = {move_supports, NULL, tile_build};
const struct vk_op vk_op_parts = {parts_supports, NULL, parts_build};
const struct vk_op vk_op_shuffle = {move_supports, NULL, shuffle_build};
