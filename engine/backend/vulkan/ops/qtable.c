#include <math.h>
#include <stdlib.h>

#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/chain.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/quantised.h"

/* Functions of one byte (256 answers) and of two (65536): ByteTable, QLinearSigmoid, QLinearLeakyRelu, QLinearAdd, QLinearMul, QLinearConcat. */

/* ---- one byte: x, x_scale, x_zero, y_scale, y_zero ---- */

static bool single_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    if (n->op == OP_ByteTable) {
        const struct value *table = node_in(g, n, 1);
        return (vk_is_byte(x) && vk_is_byte(table) && shape_elements(&table->shape) == 256) ||
               vk_refuse(ret_reason, "not bytes and a table of 256");
    }
    bool fits = vk_is_byte(x) && y->dtype == x->dtype && vk_affine_signed_fits(g, n, 1, x->dtype) &&
                vk_affine_signed_fits(g, n, 3, x->dtype);
    return fits || vk_refuse(ret_reason, "not bytes of one type with one constant scale each");
}

static void single_table(const struct vk_build *b, enum pen_dtype dtype, uint8_t table[256])
{
    const struct vk_affine x = vk_affine_of(b, 1), y = vk_affine_of(b, 3);
    double alpha = (double)node_float(b->n, ATTR_alpha, 0.01f);
    for (unsigned i = 0; i < 256; i++) {
        double v = vk_real(&x, dtype, (uint8_t)i);
        v = b->n->op == OP_QLinearSigmoid ? 1.0 / (1.0 + exp(-v)) : v < 0.0 ? alpha * v : v;
        table[i] = vk_quantised(&y, dtype, v);
    }
}

static void single_build(struct vk_build *b)
{
    const struct fact *x = vk_in(b, 0);
    uint8_t table[256];
    uint32_t cell = VK_CELL_NONE;
    if (b->n->op == OP_ByteTable) {
        cell = vk_in_cell(b, 1);
    } else {
        single_table(b, x->dtype, table);
        cell = vk_host_cell(b, table, sizeof table);
    }
    vk_table_dispatch(b, &x->shape, vk_out_cell(b, 0), vk_in_cell(b, 0), cell);
}

const struct vk_op vk_op_qsingle = {single_supports, NULL, single_build};

/* ---- two bytes: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero ---- */

static bool pair_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *a = node_in(g, n, 0), *b = node_in(g, n, 3), *y = node_out(g, n, 0);
    bool fits = vk_is_byte(a) && vk_dtype_is(b, a->dtype) && y->dtype == a->dtype && y->shape.rank <= EW_RANK_MAX &&
                vk_affine_signed_fits(g, n, 1, a->dtype) && vk_affine_signed_fits(g, n, 4, a->dtype) &&
                vk_affine_signed_fits(g, n, 6, a->dtype);
    return fits || vk_refuse(ret_reason, "not bytes of one type with one constant scale each, of six dims at most");
}

/* Sums in fixed point: y = (a ma + b mb + bias) >> shift, as TFLite's runtime adds. False for scales that have no such form. */
struct fixed {
    int64_t a, b, bias;
    int shift;
};

static bool fixed_of(const struct vk_affine *a, const struct vk_affine *b, const struct vk_affine *y, struct fixed *ret)
{
    float factor[2] = {(float)a->scale / (float)y->scale, (float)b->scale / (float)y->scale};
    float largest = fmaxf(fabsf(factor[0]), fabsf(factor[1]));
    ret->shift = largest > 0.0f && isfinite(largest) ? 20 - ilogbf(largest) : 0;
    if (ret->shift < 1 || ret->shift > 40) {
        return false;
    }
    ret->a = lrintf(ldexpf(factor[0], ret->shift));
    ret->b = lrintf(ldexpf(factor[1], ret->shift));
    ret->bias = (INT64_C(1) << (ret->shift - 1)) - ret->a * (int64_t)a->zero - ret->b * (int64_t)b->zero;
    return true;
}

static uint8_t fixed_sum(const struct fixed *f, const struct vk_affine *y, enum pen_dtype dtype, uint8_t a, uint8_t b)
{
    int64_t sum = f->bias + vk_byte_at(&a, dtype, 0) * f->a + vk_byte_at(&b, dtype, 0) * f->b;
    const struct vk_affine whole = {1.0, y->zero};
    return vk_quantised(&whole, dtype, (double)(sum >> f->shift));
}

/* [byte of a][byte of b] */
static void pair_table(const struct vk_build *b, enum pen_dtype dtype, uint8_t *table)
{
    const struct vk_affine p = vk_affine_of(b, 1), q = vk_affine_of(b, 4), y = vk_affine_of(b, 6);
    bool adds = b->n->op == OP_QLinearAdd;
    struct fixed f;
    bool fixed = adds && node_int(b->n, ATTR_fixed_point, 0) != 0 && fixed_of(&p, &q, &y, &f);
    for (unsigned i = 0; i < 65536; i++) {
        uint8_t u = (uint8_t)(i >> 8), v = (uint8_t)i;
        double s = vk_real(&p, dtype, u), t = vk_real(&q, dtype, v);
        table[i] = fixed ? fixed_sum(&f, &y, dtype, u, v) : vk_quantised(&y, dtype, adds ? s + t : s * t);
    }
}

static void pair_build(struct vk_build *b)
{
    const struct fact *u = vk_in(b, 0), *v = vk_in(b, 3);
    const struct shape one = shape_scalar();
    uint8_t *table = malloc(65536);
    struct vk_chain c;
    if (table == NULL) {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a table");
        return;
    }
    pair_table(b, u->dtype, table);
    vk_chain_init(&c, &vk_out(b, 0)->shape);
    c.whole = true;
    vk_chain_input(&c, vk_in_cell(b, 0), &u->shape, EW_U8);
    uint32_t right = vk_chain_input(&c, vk_in_cell(b, 3), &v->shape, EW_U8);
    uint32_t answers = vk_chain_input(&c, vk_host_cell(b, table, 65536), &one, EW_U8);
    vk_chain_step(&c, EW_PAIR, right | answers << 4, 0.0f, 0.0f);
    vk_chain_dispatch(b, &c, vk_out_cell(b, 0), EW_U8);
    free(table);
}

const struct vk_op vk_op_qpair = {pair_supports, NULL, pair_build};

/* ---- QLinearConcat: y_scale, y_zero, then x, x_scale, x_zero for each part ---- */

static bool concat_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *y = node_out(g, n, 0);
    bool fits = vk_is_byte(y) && n->in_count >= 3 && vk_affine_signed_fits(g, n, 0, y->dtype) && y->shape.rank > 0 &&
                y->shape.rank <= EW_RANK_MAX && shape_axis(node_int(n, ATTR_axis, 0), y->shape.rank) >= 0;
    for (uint32_t i = 2; fits && i + 1 < n->in_count; i += 3) {
        fits = vk_dtype_is(node_in(g, n, i), y->dtype) && vk_affine_signed_fits(g, n, i + 1, y->dtype);
    }
    return fits || vk_refuse(ret_reason, "not bytes of one type with one constant scale each, of six dims at most");
}

/* The part in y's scale: itself, or what a table makes of it. */
static uint32_t part_cell(struct vk_build *b, uint32_t index, const struct vk_affine *y)
{
    const struct fact *x = vk_in(b, index);
    const struct vk_affine from = vk_affine_of(b, index + 1);
    uint8_t table[256];
    bool same = true;
    for (unsigned i = 0; i < 256; i++) {
        table[i] = vk_quantised(y, x->dtype, vk_real(&from, x->dtype, (uint8_t)i));
        same = same && table[i] == i;
    }
    if (same) {
        return vk_in_cell(b, index);
    }
    uint32_t to = vk_temp_f32(b, vk_elements(x) / 4 + 1);
    vk_table_dispatch(b, &x->shape, to, vk_in_cell(b, index), vk_host_cell(b, table, sizeof table));
    return to;
}

static void concat_build(struct vk_build *b)
{
    const struct shape *whole = &vk_out(b, 0)->shape;
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), whole->rank);
    const struct vk_affine y = vk_affine_of(b, 0);
    int64_t steps[PEN_MAX_RANK];
    size_t at = 0;
    vk_dense_steps(whole, steps);
    for (uint32_t i = 2; i + 1 < b->n->in_count && b->status == PEN_OK; i += 3) {
        const struct shape *part = &vk_in(b, i)->shape;
        struct vk_box box = {.rank = part->rank, .y_at = at};
        vk_dense_steps(part, box.x_step);
        for (int32_t d = 0; d < part->rank; d++) {
            box.dim[d] = (size_t)part->dim[d];
            box.y_step[d] = steps[d];
        }
        at += (size_t)(part->dim[axis] * steps[axis]);
        if (shape_elements(part) > 0) {
            vk_box_copy(b, &box, vk_out_cell(b, 0), part_cell(b, i, &y), 1);
        }
    }
}

const struct vk_op vk_op_qconcat = {concat_supports, NULL, concat_build};
