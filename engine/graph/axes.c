#include "graph/axes.h"

#include <string.h>

bool spatial_axes_of(const struct node *n, int32_t rank, struct spatial_axes *ret)
{
    if (rank < 2 || rank > PEN_MAX_RANK)
        return false;
    bool last = node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC || node_int(n, ATTR_channels_last, 0) != 0;
    *ret = (struct spatial_axes){.count = rank - 2, .channel = last ? rank - 1 : 1, .first = last ? 1 : 2};
    return true;
}

static bool is_global_pool(enum op op)
{
    return op == OP_GlobalAveragePool || op == OP_GlobalMaxPool || op == OP_GlobalLpPool;
}

bool reduced_axes_of(const struct node *n, const struct fact *axes, int32_t rank, bool *ret_gone)
{
    memset(ret_gone, 0, PEN_MAX_RANK);
    if (is_global_pool(n->op)) {
        bool last = node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
        for (int32_t d = 0; d < rank; d++)
            ret_gone[d] = last ? d > 0 && d < rank - 1 : d > 1;
        return rank >= 2;
    }
    int64_t count = axes ? shape_elements(&axes->shape) : 0;
    if (count == 0) {
        memset(ret_gone, node_int(n, ATTR_noop_with_empty_axes, 0) == 0, PEN_MAX_RANK);
        return true;
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t axis = axes->data ? shape_axis(((const int64_t *)axes->data)[i], rank) : -1;
        if (axis < 0)
            return false;
        ret_gone[axis] = true;
    }
    return true;
}
