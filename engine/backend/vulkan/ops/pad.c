#include <string.h>

#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/map.h"
#include "backend/vulkan/ops/ops.h"

/* Pad, every mode: a table per dim says where an output position comes from; -1 is the pad value. */

static bool pad_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *value = node_in(g, n, 2);
    if (!vk_movable(x->dtype) || (value != NULL && value->dtype != x->dtype)) {
        return vk_refuse(ret_reason, "not for these types");
    }
    return (x->shape.rank > 0 && x->shape.rank <= 6 && vk_dtype_is(node_in(g, n, 1), PEN_DTYPE_I64)) ||
           vk_refuse(ret_reason, "a scalar, or more than six dims");
}

/* Padding in front of each dim; false when it is only known while running. */
static bool begins_read(const struct vk_build *b, int32_t rank, int64_t *begin)
{
    const struct fact *pads = vk_in(b, 1), *axes = vk_in(b, 3);
    int64_t count = axes != NULL ? shape_elements(&axes->shape) : rank;
    memset(begin, 0, PEN_MAX_RANK * sizeof *begin);
    if (pads->data == NULL || (axes != NULL && axes->data == NULL) || shape_elements(&pads->shape) != 2 * count) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t named = axes == NULL                   ? i
                        : axes->dtype == PEN_DTYPE_I64 ? ((const int64_t *)axes->data)[i]
                                                       : ((const int32_t *)axes->data)[i];
        int32_t axis = shape_axis(named, rank);
        if (axis < 0) {
            return false;
        }
        begin[axis] = ((const int64_t *)pads->data)[i];
    }
    return true;
}

/* Where position `at` (relative to x, maybe outside) is read in a dim of n; -1 = the pad value. */
static int64_t source_of(const struct node *n, int64_t at, int64_t dim)
{
    if (at >= 0 && at < dim) {
        return at;
    }
    if (node_text_is(n, ATTR_mode, "edge", false)) {
        return at < 0 ? 0 : dim - 1;
    }
    if (node_text_is(n, ATTR_mode, "wrap", false)) {
        return ((at % dim) + dim) % dim;
    }
    if (node_text_is(n, ATTR_mode, "reflect", false)) {
        int64_t period = 2 * (dim - 1);
        int64_t m = period == 0 ? 0 : ((at % period) + period) % period;
        return m < dim ? m : period - m;
    }
    return -1;
}

static void pad_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    int64_t begin[PEN_MAX_RANK], steps[PEN_MAX_RANK];
    struct vk_map m;
    if (!begins_read(b, x->rank, begin) || x->rank != y->rank) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "pads are only known while running");
        return;
    }
    vk_map_init(&m, vk_element_bytes(b, vk_in(b, 0)->dtype));
    vk_dense_steps(x, steps);
    for (int32_t d = 0; d < x->rank && b->status == PEN_OK; d++) {
        int32_t *table = vk_map_add(&m, (size_t)y->dim[d], (size_t)steps[d]);
        for (int64_t i = 0; table != NULL && i < y->dim[d]; i++) {
            table[i] = (int32_t)source_of(b->n, i - begin[d], x->dim[d]);
        }
        if (table == NULL) {
            vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a table");
        }
    }
    vk_map_dispatch(b, &m, vk_in(b, 2) != NULL ? 2 : UINT32_MAX);
}

const struct vk_op vk_op_pad = {pad_supports, NULL, pad_build};
