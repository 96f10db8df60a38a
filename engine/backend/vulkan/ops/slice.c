#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"

/* Slice: starts and steps are known when the exec is made (constants, or folded shape arithmetic), so it is a box. */

static bool slice_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *starts = node_in(g, n, 1);
    if (!vk_movable(x->dtype) || (!vk_dtype_is(starts, PEN_DTYPE_I64) && !vk_dtype_is(starts, PEN_DTYPE_I32))) {
        return vk_refuse(ret_reason, "not for these types");
    }
    return x->shape.rank > 0 || vk_refuse(ret_reason, "a scalar");
}

/* Item of a parameter; the default when the parameter is omitted. False when its value is only known while running. */
static bool item(const struct fact *f, int64_t i, int64_t def, int64_t *ret)
{
    *ret = def;
    if (f == NULL) {
        return true;
    }
    if (f->data == NULL || i >= shape_elements(&f->shape)) {
        return false;
    }
    *ret = f->dtype == PEN_DTYPE_I64 ? ((const int64_t *)f->data)[i] : ((const int32_t *)f->data)[i];
    return true;
}

/* First element of one axis, clamped as the operator says; false when the result reaches outside of x. */
static bool axis_read(int64_t dim, int64_t n, int64_t start, int64_t *step, int64_t *ret_first)
{
    int64_t high = *step > 0 ? dim : dim - 1;
    start = start < 0 ? start + dim : start;
    start = start < 0 ? 0 : start > high ? high : start;
    *step = *step < -dim - 1 ? -dim - 1 : *step > dim + 1 ? dim + 1 : *step;
    int64_t last = start + (n - 1) * *step;
    *ret_first = start;
    return *step != 0 && start < dim && last >= 0 && last < dim;
}

static void slice_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    const struct fact *starts = vk_in(b, 1), *axes = vk_in(b, 3), *steps = vk_in(b, 4);
    int64_t x_steps[PEN_MAX_RANK];
    struct vk_box box = {.rank = y->rank};
    vk_dense_steps(x, x_steps);
    vk_dense_steps(y, box.y_step);
    for (int32_t d = 0; d < y->rank; d++) {
        box.dim[d] = (size_t)y->dim[d];
        box.x_step[d] = x_steps[d];
    }
    for (int64_t i = 0; i < shape_elements(&starts->shape); i++) {
        int64_t start = 0, axis_at = 0, step = 1, first = 0;
        bool known = item(starts, i, 0, &start) && item(axes, i, i, &axis_at) && item(steps, i, 1, &step);
        int32_t axis = known ? shape_axis(axis_at, x->rank) : -1;
        if (axis < 0 || !axis_read(x->dim[axis], y->dim[axis], start, &step, &first)) {
            vk_build_fail(b, PEN_ERR_UNSUPPORTED, "starts, axes or steps are computed, or do not fit the shape");
            return;
        }
        box.x_at += (size_t)(first * x_steps[axis]);
        box.x_step[axis] = y->dim[axis] > 1 ? x_steps[axis] * step : x_steps[axis];
    }
    vk_box_copy(b, &box, vk_out_cell(b, 0), vk_in_cell(b, 0), vk_element_bytes(b, vk_in(b, 0)->dtype));
}

const struct vk_op vk_op_slice = {slice_supports, NULL, slice_build};
