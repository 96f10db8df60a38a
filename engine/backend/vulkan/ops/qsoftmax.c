#include <math.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/quantised.h"

/* QLinearSoftmax: x, x_scale, x_zero, y_scale, y_zero. */

#define WIDE_AXIS 128 /* from here on a workgroup shares a lane */
#define AXIS_MOST 65536
#define ONE_BITS  38 /* of e^0: a sum of AXIS_MOST has 54 bits, and y_scale 24 and a result 10 more */

static bool supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool fits = vk_is_byte(x) && y->dtype == x->dtype && vk_affine_signed_fits(g, n, 1, x->dtype) &&
                vk_affine_fits(g, n, 3, x->dtype);
    if (!fits) {
        return vk_refuse(ret_reason, "not bytes of one type with one constant scale each");
    }
    return (x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), x->shape.rank) >= 0) ||
           vk_refuse(ret_reason, "axis out of range");
}

/* e^(-d scale): the difference of two codes times a scale is exact in double, so this is what the reference takes the exponential of. */
static uint32_t table_cell(struct vk_build *b, double scale)
{
    uint64_t table[256];
    for (unsigned d = 0; d < 256; d++) {
        table[d] = (uint64_t)llrint(ldexp(exp(-(double)d * fabs(scale)), ONE_BITS));
    }
    return vk_host_cell(b, table, sizeof table);
}

static void build(struct vk_build *b)
{
    const struct fact *in = vk_in(b, 0);
    const struct vk_affine x = vk_affine_of(b, 1), y = vk_affine_of(b, 3);
    const bool is_signed = in->dtype == PEN_DTYPE_I8;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), in->shape.rank);
    size_t count = (size_t)in->shape.dim[axis], rows = vk_elements(in) / count, inner = 1;
    int exponent = 0;
    uint32_t bottom = (uint32_t)ldexp(frexp(y.scale, &exponent), 24);
    for (int32_t d = axis + 1; d < in->shape.rank; d++) {
        inner *= (size_t)in->shape.dim[d];
    }
    if (count > AXIS_MOST) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "more than 65536 bytes along the axis");
        return;
    }
    bool wide = count >= WIDE_AXIS;
    struct vk_work *w = vk_dispatch(b, SHADER_qsoftmax);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, table_cell(b, x.scale), VK_READ);
    vk_spec(w, wide);
    vk_spec(w, (is_signed ? 0x80u : 0u) ^ (x.scale < 0.0 ? 0xFFu : 0u));
    vk_spec(w, is_signed);
    vk_push(w, rows);
    vk_push(w, count);
    vk_push(w, inner);
    vk_push(w, (uint32_t)(int32_t)y.zero);
    vk_push(w, bottom);
    vk_push(w, (uint32_t)(24 - exponent));
    vk_push_float(w, (float)y.scale);
    vk_items(w, wide ? rows * 64 : rows);
}

const struct vk_op vk_op_qsoftmax = {supports, NULL, build};
