#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/quantised.h"

/* QuantizeLinear to bytes, DequantizeLinear from bytes and i32: one scale, one for each position of an axis, or in blocks. DynamicQuantizeLinear. */

static bool whole(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_I32;
}

static bool supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    bool to = n->op == OP_QuantizeLinear;
    const struct value *x = node_in(g, n, 0), *scale = node_in(g, n, 1), *zero = node_in(g, n, 2),
                       *y = node_out(g, n, 0);
    const struct value *real = to ? x : y, *code = to ? y : x;
    bool fits = vk_dtype_is(real, PEN_DTYPE_F32) && vk_dtype_is(scale, PEN_DTYPE_F32) &&
                (to ? vk_is_byte(code) : whole(code->dtype)) && (zero == NULL || zero->dtype == code->dtype);
    return fits || vk_refuse(ret_reason, "not between f32 and bytes");
}

/* Which scale an element has; words of the push block behind n. False when scales and data do not fit each other. */
struct steps {
    size_t inner, axis, block, along, full;
};

static bool steps_read(const struct vk_build *b, struct steps *s)
{
    const struct shape *x = &vk_in(b, 0)->shape, *scale = &vk_in(b, 1)->shape;
    int64_t block = node_int(b->n, ATTR_block_size, 0), scales = shape_elements(scale);
    *s = (struct steps){1, 1, 1, 0, 0};
    if (scales == 1 && block == 0) {
        return true;
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 1), x->rank);
    if (axis < 0 || block < 0 || scale->rank == 0) {
        return false;
    }
    for (int32_t d = axis + 1; d < x->rank; d++) {
        s->inner *= (size_t)x->dim[d];
    }
    bool full = block > 0 || scale->rank == x->rank;
    int64_t along = scale->rank == 1 ? scale->dim[0] : scale->dim[axis], size = x->dim[axis];
    block = block > 0 ? block : full && along > 0 ? (size + along - 1) / along : 1;
    int64_t need = (size + block - 1) / block;
    s->axis = (size_t)size;
    s->block = (size_t)block;
    s->along = (size_t)along;
    s->full = full;
    return along == need && scales == (full ? shape_elements(x) / size * need : need);
}

static void dispatch(struct vk_build *b, enum shader shader, const struct steps *s, uint32_t kind, uint32_t scale,
                     bool single)
{
    const struct fact *zero = vk_in(b, 2);
    size_t count = vk_elements(vk_in(b, 0));
    struct vk_work *w = vk_dispatch(b, shader);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, scale, VK_READ);
    vk_bind(w, zero != NULL ? vk_in_cell(b, 2) : scale, VK_READ);
    vk_spec(w, kind);
    vk_spec(w, zero != NULL);
    vk_spec(w, single);
    const size_t words[] = {count, s->inner, s->axis, s->block, s->along, s->full};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, shader == SHADER_to_bytes ? (count + 3) / 4 : count);
}

static void build(struct vk_build *b)
{
    const struct fact *scale = vk_in(b, 1), *zero = vk_in(b, 2);
    bool to = b->n->op == OP_QuantizeLinear, single = scale->data != NULL;
    enum pen_dtype code = to ? vk_out(b, 0)->dtype : vk_in(b, 0)->dtype;
    struct steps s;
    if (!steps_read(b, &s) || (zero != NULL && vk_elements(zero) != vk_elements(scale))) {
        vk_build_fail(b, PEN_ERR_SHAPE, "scales or zero points do not fit the data");
        return;
    }
    uint32_t cell = single ? vk_host_cell(b, scale->data, scale->bytes) : vk_in_cell(b, 1);
    uint32_t kind = code == PEN_DTYPE_I32 ? 2 : code == PEN_DTYPE_I8;
    dispatch(b, to ? SHADER_to_bytes : SHADER_from_bytes, &s, kind, cell, single);
}

const struct vk_op vk_op_quantise = {supports, NULL, build};

/* ---- DynamicQuantizeLinear: x to y, scale, zero point ---- */

#define PIECE  4096 /* elements that a workgroup looks at, where there are few pieces */
#define PIECES 256

static bool dynamic_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    bool all = n->out_count == 3 && node_out(g, n, 0) != NULL && node_out(g, n, 1) != NULL && node_out(g, n, 2) != NULL;
    return (all && vk_dtype_is(node_in(g, n, 0), PEN_DTYPE_F32)) ||
           vk_refuse(ret_reason, "only f32, all three outputs");
}

static void range_dispatch(struct vk_build *b, bool last, size_t count, size_t groups, uint32_t pieces, uint32_t exact)
{
    struct vk_work *w = vk_dispatch(b, SHADER_dynamic_range);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, pieces, VK_READ_WRITE);
    vk_bind(w, vk_out_cell(b, 1), VK_WRITE);
    vk_bind(w, vk_out_cell(b, 2), VK_WRITE);
    vk_bind(w, exact, VK_WRITE);
    vk_spec(w, last);
    vk_push(w, count);
    vk_push(w, groups);
    vk_groups(w, groups, 1, 1);
}

static void dynamic_build(struct vk_build *b)
{
    size_t count = vk_elements(vk_in(b, 0)), groups = (count + PIECE - 1) / PIECE;
    groups = groups < PIECES ? groups : PIECES;
    uint32_t pieces = vk_temp_f32(b, 2 * groups), exact = vk_temp_f32(b, 1);
    range_dispatch(b, false, count, groups, pieces, exact);
    range_dispatch(b, true, groups, 1, pieces, exact);
    struct vk_work *w = vk_dispatch(b, SHADER_to_bytes);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, exact, VK_READ);
    vk_bind(w, vk_out_cell(b, 2), VK_READ);
    vk_spec(w, false);
    vk_spec(w, true);
    vk_spec(w, true);
    const size_t words[] = {count, 1, 1, 1, 0, 0};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, (count + 3) / 4);
}

const struct vk_op vk_op_dynamic = {dynamic_supports, NULL, dynamic_build};
