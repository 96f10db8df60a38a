#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"
#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/chain.h"
#include "backend/vulkan/ops/epilogue.h"
#include "backend/vulkan/range.h"

/*
 * Gemm and MatMul with one matrix on the right: y[m, n] = act(alpha a[m, k] b[k, n] + beta c). A constant b is packed once, a computed one on every run; c is a
 * bias when it is one value per column and constant, else it is added behind the product.
 */
struct sides {
    bool trans_a, trans_b;
    float alpha, beta;
};

static struct sides sides_read(const struct node *n)
{
    bool gemm = n->op == OP_Gemm;
    return (struct sides){.trans_a = gemm && node_int(n, ATTR_transA, 0) != 0,
                          .trans_b = gemm && node_int(n, ATTR_transB, 0) != 0,
                          .alpha = gemm ? node_float(n, ATTR_alpha, 1.0f) : 1.0f,
                          .beta = gemm ? node_float(n, ATTR_beta, 1.0f) : 1.0f};
}

/* b as a filter of one group, one tap: k = "input channels", n = "outputs". */
static struct filter filter_of(const struct sides *s, const struct shape *b)
{
    size_t rows = (size_t)b->dim[b->rank - 2], cols = (size_t)b->dim[b->rank - 1];
    return (struct filter){.groups = 1,
                           .out = s->trans_b ? rows : cols,
                           .in = s->trans_b ? cols : rows,
                           .kernel_h = 1,
                           .kernel_w = 1,
                           .out_step = s->trans_b ? cols : 1,
                           .in_step = s->trans_b ? 1 : cols};
}

static bool bias_like(const struct value *c, int64_t n)
{
    if (c == NULL || c->data == NULL) {
        return false;
    }
    int64_t count = shape_elements(&c->shape);
    return count == 1 || (count == n && c->shape.rank >= 1 && c->shape.dim[c->shape.rank - 1] == n);
}

static enum pen_status bias_pack(struct vk_pack *p, const struct value *c, size_t n, float beta)
{
    float *bias = vk_pack_floats(p, 1, n + 4);
    for (size_t i = 0; bias != NULL && i < n; i++) {
        bias[i] = beta * ((const float *)c->data)[shape_elements(&c->shape) == 1 ? 0 : i];
    }
    vk_pack_wide_if_outside(p, 1);
    return bias != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

/* What the node behind a MatMul adds to each row: it may be computed with the product. */
static enum pen_status next_bias_pack(struct vk_pack *p, size_t outs)
{
    const struct value *c = vk_epilogue_bias(p->g, p->n, outs);
    enum pen_status status = c != NULL ? bias_pack(p, c, outs, 1.0f) : PEN_OK;
    if (c != NULL && status == PEN_OK && vk_range_large(c->data, outs)) {
        vk_pack_wide(p, VK_EPILOGUE_BIAS);
    }
    return status;
}

static enum pen_status gemm_pack(struct vk_pack *p)
{
    struct sides s = sides_read(p->n);
    const struct value *b = node_in(p->g, p->n, 1), *c = p->n->op == OP_Gemm ? node_in(p->g, p->n, 2) : NULL;
    if (p->n->op == OP_MatMul && b->shape.rank > 2) { /* a batch */
        const int64_t outs = b->shape.dim[b->shape.rank - 1];
        return outs > 0 ? next_bias_pack(p, (size_t)outs) : PEN_OK;
    }
    if (b->data == NULL || b->shape.rank != 2) {
        return PEN_OK;
    }
    struct filter f = filter_of(&s, &b->shape);
    float *packed = vk_pack_floats(p, 0, vk_filter_packed(&f));
    if (packed == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    vk_filter_pack(&f, b->data, s.alpha, packed);
    vk_pack_wide_if_outside(p, 0);
    vk_pack_bf16(p, 0);
    return bias_like(c, (int64_t)f.out) ? bias_pack(p, c, f.out, s.beta) : next_bias_pack(p, f.out);
}

/* ---- Gemm ---- */

static bool gemm_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    return (node_in(g, n, 0)->shape.rank == 2 && node_in(g, n, 1)->shape.rank == 2) ||
           vk_refuse(ret_reason, "not two matrices");
}

/* y = act(product + beta c) where c is no bias. */
static void sum_build(struct vk_build *b, uint32_t product, float beta, const struct vk_act *act)
{
    struct vk_chain chain;
    vk_chain_init(&chain, &vk_out(b, 0)->shape);
    vk_chain_input(&chain, product, &vk_out(b, 0)->shape, EW_REAL);
    uint32_t c = vk_chain_input(&chain, vk_in_cell(b, 2), &vk_in(b, 2)->shape, EW_REAL);
    if (beta != 1.0f) { /* x / beta + c, then times beta: one operand per step */
        vk_chain_step(&chain, EW_SCALE, 0, 1.0f / beta, 0.0f);
    }
    vk_chain_step(&chain, EW_ADD, c, 0.0f, 0.0f);
    if (beta != 1.0f) {
        vk_chain_step(&chain, EW_SCALE, 0, beta, 0.0f);
    }
    vk_chain_act(&chain, act);
    vk_chain_dispatch(b, &chain, vk_out_cell(b, 0), EW_REAL);
}

static uint32_t turned(struct vk_build *b, size_t rows, size_t cols)
{
    uint32_t cell = vk_temp_cell(b, rows * cols);
    struct vk_box box = {.rank = 2, .dim = {cols, rows}, .x_step = {1, (int64_t)cols}, .y_step = {(int64_t)rows, 1}};
    vk_box_copy(b, &box, cell, vk_in_cell(b, 0), vk_build_f16(b) ? 2 : 4);
    return cell;
}

static void gemm_build(struct vk_build *b)
{
    struct sides s = sides_read(b->n);
    const struct shape *a = &vk_in(b, 0)->shape, *w = &vk_in(b, 1)->shape;
    struct filter f = filter_of(&s, w);
    size_t m = (size_t)a->dim[s.trans_a], k = (size_t)a->dim[!s.trans_a];
    bool has_c = vk_in(b, 2) != NULL && s.beta != 0.0f;
    if (f.in != k || vk_elements(vk_out(b, 0)) != m * f.out) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the matrices do not fit each other");
        return;
    }
    struct vk_product p = {.w = vk_matrix_window(m, k), .groups = 1, .group_in = k, .group_out = f.out};
    struct vk_act act = vk_act_read(b->n);
    const bool as_bias = has_c && vk_packed_there(b, 1);
    if (b->epilogue == NULL && has_c == as_bias && vk_epilogue_waits(b, vk_in(b, 2) != NULL)) {
        return;
    }
    p.weights = vk_packed_cell(b, 0);
    if (p.weights == VK_CELL_NONE) {
        p.weights = vk_filter_repack(b, &f, vk_in_cell(b, 1), s.alpha);
    }
    p.bias = has_c ? vk_packed_cell(b, 1) : VK_CELL_NONE;
    bool add = has_c && !as_bias;
    p.x = s.trans_a ? turned(b, (size_t)a->dim[0], (size_t)a->dim[1]) : vk_in_cell(b, 0);
    p.act = act;
    if (add) {
        p.y = vk_temp_cell(b, m * f.out);
        p.act = (struct vk_act){0};
    } else {
        vk_epilogue_apply(b, &p);
    }
    vk_product(b, &p);
    if (add) {
        sum_build(b, p.y, s.beta, &act);
    }
}

const struct vk_op vk_op_gemm = {gemm_supports, gemm_pack, gemm_build};

/* ---- MatMul ---- */

static bool matmul_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    int32_t a = node_in(g, n, 0)->shape.rank, b = node_in(g, n, 1)->shape.rank;
    return (a >= 1 && b >= 1 && a <= 6 && b <= 6) || vk_refuse(ret_reason, "a scalar or more than six dims");
}

/* The matrix on the right is one for all: leading dims of the left are rows. */
static void matmul_one(struct vk_build *b, const struct shape *right)
{
    struct sides s = sides_read(b->n);
    struct filter f = filter_of(&s, right);
    size_t k = f.in, m = vk_elements(vk_in(b, 0)) / k;
    if (b->epilogue == NULL && vk_in(b, 1)->shape.rank == 2 && vk_epilogue_waits(b, false)) {
        return;
    }
    struct vk_product p = {.w = vk_matrix_window(m, k),
                           .groups = 1,
                           .group_in = k,
                           .group_out = f.out,
                           .bias = VK_CELL_NONE,
                           .act = vk_act_read(b->n)};
    p.weights = vk_packed_cell(b, 0);
    if (p.weights == VK_CELL_NONE) {
        p.weights = vk_filter_repack(b, &f, vk_in_cell(b, 1), 1.0f);
    }
    p.x = vk_in_cell(b, 0);
    vk_epilogue_apply(b, &p);
    vk_product(b, &p);
}

static void matmul_build(struct vk_build *b)
{
    struct shape left = vk_in(b, 0)->shape, right = vk_in(b, 1)->shape;
    if (right.rank == 1) {
        right = shape_of(2, (int64_t[]){right.dim[0], 1});
    }
    if (left.rank == 1) {
        left = shape_of(2, (int64_t[]){1, left.dim[0]});
    }
    if (left.dim[left.rank - 1] != right.dim[right.rank - 2]) {
        vk_build_fail(b, PEN_ERR_SHAPE, "the inner dims differ");
    } else if (right.rank == 2) {
        matmul_one(b, &right);
    } else {
        vk_matmul_batch(b, &left, &right);
    }
}

const struct vk_op vk_op_matmul = {matmul_supports, gemm_pack, matmul_build};
