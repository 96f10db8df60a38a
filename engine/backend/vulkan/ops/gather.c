#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"

/* Gather, GatherElements, GatherND. An index out of range ends the run: the kernel writes its node into the flag. */

static bool gather_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *at = node_in(g, n, 1);
    unsigned bits = x->dtype == PEN_DTYPE_STRING ? 0 : pen_dtype_bits(x->dtype);
    bool wide = bits == 64 && n->op == OP_GatherElements; /* two words an element, one index: not by this kernel */
    if ((bits != 8 && bits != 16 && bits != 32 && bits != 64) || wide ||
        (at->dtype != PEN_DTYPE_I64 && at->dtype != PEN_DTYPE_I32)) {
        return vk_refuse(ret_reason, "not for these types");
    }
    if (n->op == OP_GatherND) {
        int32_t rank = at->shape.rank;
        bool known = rank >= 1 && at->shape.dim[rank - 1] != SHAPE_DIM_UNKNOWN;
        return (known && at->shape.dim[rank - 1] <= 6) || vk_refuse(ret_reason, "indices of unknown length");
    }
    return (x->shape.rank >= 1 && x->shape.rank <= 6 && shape_axis(node_int(n, ATTR_axis, 0), x->shape.rank) >= 0) ||
           vk_refuse(ret_reason, "axis out of range, or more than six dims");
}

struct gather {
    size_t places, inner, x_outer, count;
    bool own, elements;
    size_t dim[6], step[6];
    uint32_t rank, axis;
};

static size_t product_of(const struct shape *s, int32_t from, int32_t to)
{
    size_t p = 1;
    for (int32_t d = from; d < to; d++) {
        p *= (size_t)s->dim[d];
    }
    return p;
}

static struct gather gather_read(const struct node *n, const struct shape *x, const struct shape *at)
{
    struct gather q = {.count = 1, .rank = 1};
    for (int d = 0; d < 6; d++) {
        q.dim[d] = 1;
    }
    if (n->op == OP_GatherND) {
        int32_t batch = (int32_t)node_int(n, ATTR_batch_dims, 0);
        q.count = (size_t)at->dim[at->rank - 1];
        q.own = true;
        q.places = product_of(at, batch, at->rank - 1);
        q.inner = product_of(x, batch + (int32_t)q.count, x->rank);
        q.x_outer = product_of(x, batch, x->rank);
        for (size_t k = 0; k < q.count; k++) {
            q.dim[k] = (size_t)x->dim[batch + (int32_t)k];
            q.step[k] = product_of(x, batch + (int32_t)k + 1, x->rank);
        }
        return q;
    }
    int32_t axis = shape_axis(node_int(n, ATTR_axis, 0), x->rank);
    if (n->op == OP_Gather) {
        q.places = (size_t)shape_elements(at);
        q.inner = product_of(x, axis + 1, x->rank);
        q.dim[0] = (size_t)x->dim[axis];
        q.step[0] = q.inner;
        q.x_outer = q.inner * q.dim[0];
        return q;
    }
    q.elements = true;
    q.rank = (uint32_t)x->rank;
    q.axis = (uint32_t)axis;
    q.places = (size_t)x->dim[axis];
    q.inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        q.dim[d] = (size_t)at->dim[d];
        q.step[d] = product_of(x, d + 1, x->rank);
    }
    return q;
}

static void gather_build(struct vk_build *b)
{
    struct gather q = gather_read(b->n, &vk_in(b, 0)->shape, &vk_in(b, 1)->shape);
    size_t size = vk_element_bytes(b, vk_in(b, 0)->dtype), two = size == 8 ? 2 : 1;
    struct vk_work *w = vk_dispatch(b, size == 1 ? SHADER_gather8 : size == 2 ? SHADER_gather16 : SHADER_gather32);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, vk_in_cell(b, 1), VK_READ);
    vk_bind(w, vk_flag_cell(b), VK_READ); /* atomic: gathers of one level may run side by side */
    vk_spec(w, vk_in(b, 1)->dtype == PEN_DTYPE_I64 ? 2 : 1);
    vk_spec(w, (uint32_t)q.count);
    vk_spec(w, q.elements);
    size_t total = vk_elements(vk_out(b, 0)) * two;
    const size_t words[] = {total, (size_t)b->index + 1, q.places, q.inner * two, q.x_outer * two, q.own};
    for (size_t i = 0; i < 6; i++) {
        vk_push(w, words[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        vk_push(w, q.dim[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        vk_push(w, q.step[i] * two);
    }
    vk_push(w, q.rank);
    vk_push(w, q.axis);
    vk_items(w, total);
}

const struct vk_op vk_op_gather = {gather_supports, NULL, gather_build};

/* ---- OneHot ---- */

static bool one_hot_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *at = node_in(g, n, 0), *values = node_in(g, n, 2);
    bool read = vk_dtype_is(at, PEN_DTYPE_I64) || vk_dtype_is(at, PEN_DTYPE_I32) || vk_dtype_is(at, PEN_DTYPE_F32);
    return (read && vk_dtype_is(values, PEN_DTYPE_F32) &&
            shape_axis(node_int(n, ATTR_axis, -1), at->shape.rank + 1) >= 0) ||
           vk_refuse(ret_reason, "not for these types");
}

static void one_hot_build(struct vk_build *b)
{
    const struct shape *y = &vk_out(b, 0)->shape;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), y->rank);
    enum pen_dtype dtype = vk_in(b, 0)->dtype;
    struct vk_work *w = vk_dispatch(b, SHADER_one_hot);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, vk_in_cell(b, 2), VK_READ);
    vk_spec(w, dtype == PEN_DTYPE_F32 ? 0 : dtype == PEN_DTYPE_I32 ? 1 : 2);
    vk_push(w, vk_elements(vk_out(b, 0)));
    vk_push(w, (size_t)y->dim[axis]);
    vk_push(w, product_of(y, axis + 1, y->rank));
    vk_items(w, vk_elements(vk_out(b, 0)));
}

const struct vk_op vk_op_one_hot = {one_hot_supports, NULL, one_hot_build};
