#include <string.h>

#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"
#include "graph/axes.h"

/* Reductions over any axes, global pools, ArgMax, ArgMin, Hardmax. */
#define WIDE_ITEMS 256 /* from here on a workgroup shares a result */

enum reduce_kind {
    KIND_SUM,
    KIND_MEAN,
    KIND_MAX,
    KIND_MIN,
    KIND_PROD,
    KIND_L1,
    KIND_L2,
    KIND_LOG_SUM,
    KIND_LOG_SUM_EXP,
    KIND_SQUARES,
    KIND_LP
};

static enum reduce_kind kind_of(enum op op)
{
    static const struct {
        enum op op;
        enum reduce_kind kind;
    } kinds[] = {{OP_ReduceSum, KIND_SUM},
                 {OP_ReduceMean, KIND_MEAN},
                 {OP_GlobalAveragePool, KIND_MEAN},
                 {OP_ReduceMax, KIND_MAX},
                 {OP_GlobalMaxPool, KIND_MAX},
                 {OP_ReduceMin, KIND_MIN},
                 {OP_ReduceProd, KIND_PROD},
                 {OP_ReduceL1, KIND_L1},
                 {OP_ReduceL2, KIND_L2},
                 {OP_ReduceLogSum, KIND_LOG_SUM},
                 {OP_ReduceLogSumExp, KIND_LOG_SUM_EXP},
                 {OP_ReduceSumSquare, KIND_SQUARES},
                 {OP_GlobalLpPool, KIND_LP}};
    size_t i = 0;
    while (kinds[i].op != op) {
        i++;
    }
    return kinds[i].kind;
}

static bool reduce_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0), *axes = node_in(g, n, 1);
    if (!vk_dtype_is(x, PEN_DTYPE_F32) || !vk_dtype_is(y, PEN_DTYPE_F32)) {
        return vk_refuse(ret_reason, "only f32");
    }
    return axes == NULL || axes->dtype == PEN_DTYPE_I64 || vk_refuse(ret_reason, "axes of another type");
}

/* Dims of one kind, neighbours merged. */
struct dims {
    size_t dim[PEN_MAX_RANK];
    int64_t step[PEN_MAX_RANK];
    int32_t rank;
    size_t count;
};

static void dims_add(struct dims *d, size_t dim, int64_t step)
{
    d->count *= dim;
    if (dim == 1) {
        return;
    }
    if (d->rank > 0 && d->step[d->rank - 1] == step * (int64_t)dim) {
        d->dim[d->rank - 1] *= dim;
        d->step[d->rank - 1] = step;
        return;
    }
    d->dim[d->rank] = dim;
    d->step[d->rank++] = step;
}

static void dims_push(struct vk_work *w, const struct dims *d)
{
    for (int32_t i = 0; i < 4; i++) {
        vk_push(w, i < 4 - d->rank ? 1 : d->dim[i - (4 - d->rank)]);
    }
    for (int32_t i = 0; i < 4; i++) {
        vk_push(w, i < 4 - d->rank ? 0 : (size_t)d->step[i - (4 - d->rank)]);
    }
}

static void reduce_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    bool gone[PEN_MAX_RANK];
    int64_t steps[PEN_MAX_RANK];
    struct dims kept = {.count = 1}, away = {.count = 1};
    if (!reduced_axes_of(b->n, vk_in(b, 1), x->rank, gone)) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "axes out of range, or only known while running");
        return;
    }
    vk_dense_steps(x, steps);
    for (int32_t d = 0; d < x->rank; d++) {
        dims_add(gone[d] ? &away : &kept, (size_t)x->dim[d], steps[d]);
    }
    if (kept.rank > 4 || away.rank > 4 || vk_elements(vk_out(b, 0)) != kept.count) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "more than four runs of dims");
        return;
    }
    bool wide = away.count >= WIDE_ITEMS;
    struct vk_work *w = vk_dispatch(b, SHADER_reduce);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_spec(w, kind_of(b->n->op));
    vk_spec(w, wide);
    vk_push(w, kept.count);
    vk_push(w, away.count);
    dims_push(w, &kept);
    dims_push(w, &away);
    vk_push_float(w, (float)node_int(b->n, ATTR_p, 2));
    vk_items(w, wide ? kept.count * VK_LOCAL : kept.count);
}

const struct vk_op vk_op_reduce = {reduce_supports, NULL, reduce_build};

/* KIND of arg.comp */
static uint32_t arg_kind(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 ? 1 : dtype == PEN_DTYPE_I8 ? 2 : 0;
}

static bool arg_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    int64_t axis = node_int(n, ATTR_axis, n->op == OP_Hardmax ? -1 : 0);
    bool numbers = vk_dtype_is(x, PEN_DTYPE_F32) || (n->op != OP_Hardmax && arg_kind(x->dtype) != 0);
    return (numbers && x->shape.rank > 0 && shape_axis(axis, x->shape.rank) >= 0) ||
           vk_refuse(ret_reason, "only f32 and bytes, along one of their axes");
}

static void arg_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    bool hard = b->n->op == OP_Hardmax;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, hard ? -1 : 0), x->rank);
    size_t inner = 1, rows = vk_elements(vk_in(b, 0)) / (size_t)x->dim[axis];
    for (int32_t d = axis + 1; d < x->rank; d++) {
        inner *= (size_t)x->dim[d];
    }
    struct vk_work *w = vk_dispatch(b, SHADER_arg);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_spec(w, b->n->op == OP_ArgMin);
    vk_spec(w, node_int(b->n, ATTR_select_last_index, 0) != 0);
    vk_spec(w, hard);
    vk_spec(w, arg_kind(vk_in(b, 0)->dtype));
    vk_push(w, rows);
    vk_push(w, (size_t)x->dim[axis]);
    vk_push(w, inner);
    vk_items(w, rows);
}

const struct vk_op vk_op_arg = {arg_supports, NULL, arg_build};
