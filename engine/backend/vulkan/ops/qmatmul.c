#include <stdlib.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/qproduct.h"

/* One number, or `vectors` ones along the last dim. */
static bool zeros_fit(const struct value *v, enum pen_dtype dtype)
{
    return v == NULL || (v->dtype == dtype && v->shape.rank <= 1);
}

static bool scale_fits(const struct value *v)
{
    return vk_dtype_is(v, PEN_DTYPE_F32) && v->data != NULL && v->shape.rank <= 1;
}

bool vk_qmatmul_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct vk_qslots s = vk_qslots_of(n->op);
    const struct value *a = node_in(g, n, s.x), *b = node_in(g, n, s.w), *y = node_out(g, n, 0);
    bool fits = (n->op == OP_MatMulInteger || n->op == OP_QLinearMatMul) && vk_is_byte(a) && vk_is_byte(b) &&
                a->shape.rank >= 2 && b->shape.rank >= 2 && zeros_fit(node_in(g, n, s.x_zero), a->dtype) &&
                zeros_fit(node_in(g, n, s.w_zero), b->dtype);
    if (fits && n->op == OP_QLinearMatMul) {
        const struct value *scale = node_in(g, n, s.x_scale);
        fits = vk_is_byte(y) && vk_one(scale, PEN_DTYPE_F32) && scale_fits(node_in(g, n, s.w_scale)) &&
               vk_affine_fits(g, n, s.y_scale, y->dtype);
    }
    return fits || vk_refuse(ret_reason, "not a product of bytes with constant scales, one or one for each column");
}

/* 0: none, 1: one for all, 2: as many as `count`; 3: neither. */
static uint32_t spread_of(const struct vk_build *b, uint32_t input, size_t count)
{
    const struct fact *f = input != UINT32_MAX ? vk_in(b, input) : NULL;
    size_t have = f != NULL ? vk_elements(f) : 0;
    return f == NULL ? 0 : have == 1 ? 1 : have == count ? 2 : 3;
}

/* x_scale w_scale / y_scale in single precision, as the reference has it. */
static uint32_t scales_cell(struct vk_build *b, const struct vk_qslots *s, size_t columns)
{
    const struct fact *w = vk_in(b, s->w_scale);
    size_t count = vk_elements(w);
    float x = *(const float *)vk_in(b, s->x_scale)->data, y = *(const float *)vk_in(b, s->y_scale)->data;
    float *scales = malloc(count * sizeof *scales + 1);
    if (scales == NULL || (count != 1 && count != columns)) {
        free(scales);
        vk_build_fail(b, PEN_ERR_SHAPE, "as many scales as columns are needed");
        return VK_CELL_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        scales[i] = x * ((const float *)w->data)[i] / y;
    }
    uint32_t cell = vk_host_cell(b, scales, count * sizeof *scales);
    free(scales);
    return cell;
}

/* Steps between the matrices of one side along the batch dims, the innermost last. */
static void batch_steps(const struct shape *lead, const struct shape *batch, size_t step[4])
{
    size_t at = 1;
    for (int32_t i = 0; i < batch->rank; i++) {
        int32_t d = lead->rank - 1 - i;
        step[3 - i] = d >= 0 && lead->dim[d] != 1 ? at : 0;
        at *= d >= 0 ? (size_t)lead->dim[d] : 1;
    }
}

struct sides {
    size_t m, n, k, count, dim[4], a_step[4], b_step[4];
};

static bool sides_read(const struct shape *a, const struct shape *b, struct sides *s)
{
    struct shape lead_a = *a, lead_b = *b, batch;
    lead_a.rank -= 2;
    lead_b.rank -= 2;
    *s = (struct sides){.m = (size_t)a->dim[lead_a.rank],
                        .k = (size_t)a->dim[lead_a.rank + 1],
                        .n = (size_t)b->dim[lead_b.rank + 1],
                        .dim = {1, 1, 1, 1}};
    if ((size_t)b->dim[lead_b.rank] != s->k || !shape_broadcast(&lead_a, &lead_b, &batch) || batch.rank > 4) {
        return false;
    }
    for (int32_t i = 0; i < batch.rank; i++) {
        s->dim[3 - i] = (size_t)batch.dim[batch.rank - 1 - i];
    }
    batch_steps(&lead_a, &batch, s->a_step);
    batch_steps(&lead_b, &batch, s->b_step);
    s->count = (size_t)shape_elements(&batch);
    return true;
}

static void words_push(struct vk_work *w, const struct sides *s)
{
    const size_t sizes[] = {s->m, s->n, s->k, s->count};
    const size_t *const lists[] = {sizes, s->dim, s->a_step, s->b_step};
    for (size_t i = 0; i < 16; i++) {
        vk_push(w, lists[i / 4][i % 4]);
    }
}

static void zeros_bind(struct vk_build *b, struct vk_work *w, uint32_t input, uint32_t spread)
{
    vk_bind(w, spread == 0 ? vk_in_cell(b, 0) : vk_in_cell(b, input), VK_READ);
}

void vk_qmatmul_build(struct vk_build *b)
{
    const struct vk_qslots s = vk_qslots_of(b->n->op);
    const struct fact *x = vk_in(b, s.x), *w = vk_in(b, s.w);
    bool sums = vk_qsums(b->n->op);
    struct sides sides;
    if (!sides_read(&x->shape, &w->shape, &sides) || vk_elements(vk_out(b, 0)) != sides.count * sides.m * sides.n) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "matrices that do not fit, or more than four batch dims");
        return;
    }
    uint32_t a_zeros = spread_of(b, s.x_zero, sides.m), b_zeros = spread_of(b, s.w_zero, sides.n);
    if (a_zeros == 3 || b_zeros == 3 || sides.k > VK_SUM_MOST / (255 * 255)) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "zero points that do not fit, or sums beyond 32 bits");
        return;
    }
    uint32_t scales = sums ? VK_CELL_NONE : scales_cell(b, &s, sides.n);
    struct vk_work *work = vk_dispatch(b, SHADER_qmatmul);
    vk_bind(work, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(work, vk_in_cell(b, s.x), VK_READ);
    vk_bind(work, vk_in_cell(b, s.w), VK_READ);
    zeros_bind(b, work, s.x_zero, a_zeros);
    zeros_bind(b, work, s.w_zero, b_zeros);
    vk_bind(work, sums ? vk_in_cell(b, s.x) : scales, VK_READ);
    vk_spec(work, x->dtype == PEN_DTYPE_I8);
    vk_spec(work, w->dtype == PEN_DTYPE_I8);
    vk_spec(work, sums);
    vk_spec(work, vk_out(b, 0)->dtype == PEN_DTYPE_I8);
    vk_spec(work, a_zeros);
    vk_spec(work, b_zeros);
    vk_spec(work, !sums && vk_elements(vk_in(b, s.w_scale)) > 1);
    words_push(work, &sides);
    vk_push(work, sums ? 0 : (uint32_t)(int32_t)vk_affine_of(b, s.y_scale).zero);
    vk_items(work, sides.count * sides.m * sides.n);
}
