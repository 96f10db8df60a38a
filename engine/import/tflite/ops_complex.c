/*
 * Complex numbers: the graph has none, a value has a last dimension of 2 more (real, imaginary). Here are the operators that make them, turn them into floats, and
 * move them about; the others refuse them by name.
 */
#include <math.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

#define MATRIX_LENGTH_MAX 512 /* lengths up to this are a product with a matrix, which all backends have */

static bool is_complex(const struct tensor *t)
{
    return t && (t->dtype == PEN_DTYPE_C64 || t->dtype == PEN_DTYPE_C128);
}

uint32_t lite_part(struct build *b, uint32_t x, int64_t which)
{
    uint32_t in[] = {x, build_i64_scalar(b, which)};
    return build_axis_op(b, OP_Gather, in, 2, -1);
}

void lower_complex_abs(struct call *c)
{
    lite_give(c, 0, build_reduce(c->b, OP_ReduceL2, lite_in(c, 0), build_i64(c->b, (int64_t[]){-1}, 1), false));
}

void lower_part(struct call *c)
{
    lite_give(c, 0, lite_part(c->b, lite_in(c, 0), tflite_row_find(c->code)->op));
}

/* ---- the transform ------------------------------------------------------------------------------------------------------------------------ */

static uint32_t transformed(struct call *c, uint32_t x, int64_t which, int64_t axis, bool onesided)
{
    uint32_t length = build_cast(c->b, lite_part(c->b, lite_in(c, 1), which), PEN_DTYPE_I64);
    uint32_t in[] = {x, length, build_i64_scalar(c->b, axis)}, y = build_op(c->b, OP_DFT, in, 3);
    build_int(c->b, ATTR_onesided, onesided);
    return y;
}

/* [n, 2 (n / 2 + 1)]: cos, -sin of 2 pi i k / n side by side. */
static uint32_t wave_matrix(struct build *b, int64_t n)
{
    int64_t bins = n / 2 + 1;
    struct shape shape = shape_of(2, (int64_t[]){n, 2 * bins});
    size_t bytes = (size_t)(2 * n * bins) * sizeof(float);
    float *to = graph_alloc_data(b->g, bytes + 64);
    for (int64_t i = 0; to && i < n * bins; i++) {
        double angle = 2.0 * 3.14159265358979323846 * (double)(i / bins * (i % bins) % n) / (double)n;
        to[2 * i] = (float)cos(angle);
        to[2 * i + 1] = (float)-sin(angle);
    }
    if (!to)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a table of waves");
    return to ? build_const(b, PEN_DTYPE_F32, &shape, to, bytes, false) : VALUE_NONE;
}

/* The last axis cut or filled with zeros to n; `have`: its size. */
static uint32_t fitted(struct build *b, uint32_t x, int64_t have, int64_t n, int32_t rank)
{
    int64_t pads[2 * PEN_MAX_RANK] = {0};
    if (have > n)
        return build_slice(b, x, -1, 0, n, 1);
    if (have == n)
        return x;
    pads[2 * rank - 1] = n - have;
    return build_2(b, OP_Pad, x, build_i64(b, pads, 2 * (uint32_t)rank));
}

/* x [..., w] as its one-sided transform [..., n / 2 + 1, 2]. */
static uint32_t rows_transformed(struct call *c, uint32_t x, int64_t n)
{
    const struct shape *s = &lite_tensor(c, 0)->shape;
    int64_t have = s->rank > 0 ? s->dim[s->rank - 1] : -1;
    if (n < 1 || n > MATRIX_LENGTH_MAX || have < 0)
        return transformed(c, build_unsqueeze(c->b, x, -1), 1, -2, true);
    uint32_t y = build_2(c->b, OP_MatMul, fitted(c->b, x, have, n, s->rank), wave_matrix(c->b, n));
    return lite_tail(c, y, 0, (int64_t[]){n / 2 + 1, 2}, 2);
}

/* x [..., h, w], the two lengths: the last axis one-sided, then the other. */
void lower_rfft_2d(struct call *c)
{
    int64_t length[2] = {0, 0};
    uint32_t count = 0, x = lite_in(c, 0);
    bool known = build_ints_of(c->b, lite_in(c, 1), length, 2, &count) && count == 2;
    if (known && length[0] == 1) { /* how a transform along one axis is written */
        uint32_t first = build_slice(c->b, x, -2, 0, 1, 1);
        const struct shape *s = &lite_tensor(c, 0)->shape;
        bool one = s->rank > 1 && s->dim[s->rank - 2] == 1;
        lite_give(c, 0,
                  one ? rows_transformed(c, x, length[1])
                      : transformed(c, build_unsqueeze(c->b, first, -1), 1, -2, true));
        return;
    }
    lite_give(c, 0, transformed(c, rows_transformed(c, x, known ? length[1] : 0), 0, -3, false));
}

/* ---- moving them about -------------------------------------------------------------------------------------------------------------------- */

static void complex_cast(struct call *c)
{
    struct build *b = c->b;
    uint32_t x = lite_in(c, 0);
    if (is_complex(lite_tensor(c, 0))) {
        lite_give(c, 0,
                  is_complex(lite_result(c, 0)) ? x : build_cast(b, lite_part(b, x, 0), lite_result(c, 0)->dtype));
        return;
    }
    uint32_t real = build_unsqueeze(b, build_cast(b, x, PEN_DTYPE_F32), -1),
             parts[] = {real, build_2(b, OP_Sub, real, real)};
    lite_give(c, 0, build_axis_op(b, OP_Concat, parts, 2, -1));
}

static void complex_reshape(struct call *c)
{
    struct build *b = c->b;
    uint32_t parts[] = {lite_i64(c, 1), build_i64(b, (int64_t[]){2}, 1)};
    lite_give(c, 0, build_2(b, OP_Reshape, lite_in(c, 0), build_axis_op(b, OP_Concat, parts, 2, 0)));
}

static void complex_squeeze(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    struct fb_list list = fb_vector(&c->options, 0, 4);
    const struct shape *s = &lite_tensor(c, 0)->shape;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list.count && count < PEN_MAX_RANK; i++) {
        int64_t axis = fb_list_int(&list, i);
        axes[count++] = axis < 0 ? axis - 1 : axis;
    }
    for (int32_t i = 0; list.count == 0 && i < s->rank; i++) {
        if (s->dim[i] == 1)
            axes[count++] = i;
    }
    uint32_t x = lite_in(c, 0);
    lite_give(c, 0, count ? build_2(c->b, OP_Squeeze, x, build_i64(c->b, axes, count)) : x);
}

static void complex_expand(struct call *c)
{
    int64_t axis;
    if (lite_axis(c, 1, &axis))
        lite_give(c, 0, build_unsqueeze(c->b, lite_in(c, 0), axis < 0 ? axis - 1 : axis));
}

/* (a + ib) (d + ie) */
static void complex_mul(struct call *c)
{
    struct build *b = c->b;
    uint32_t x = lite_in(c, 0), y = lite_in(c, 1), a = lite_part(b, x, 0), i = lite_part(b, x, 1),
             d = lite_part(b, y, 0), e = lite_part(b, y, 1), last = build_i64(b, (int64_t[]){-1}, 1);
    uint32_t real = build_2(b, OP_Sub, build_2(b, OP_Mul, a, d), build_2(b, OP_Mul, i, e));
    uint32_t imaginary = build_2(b, OP_Add, build_2(b, OP_Mul, a, e), build_2(b, OP_Mul, i, d));
    uint32_t parts[] = {build_2(b, OP_Unsqueeze, real, last), build_2(b, OP_Unsqueeze, imaginary, last)};
    lite_give(c, 0, build_axis_op(b, OP_Concat, parts, 2, -1));
}

static void complex_shape(struct call *c)
{
    lite_give(c, 0, build_cast(c->b, lite_dims(c, lite_in(c, 0), 0, -1), lite_result(c, 0)->dtype));
}

static const struct {
    lower_fn plain, lower; /* of the operator with floats, with complex numbers; the same: it needs no other */
} forms[] = {
    {lower_cast, complex_cast},       {lower_reshape, complex_reshape},
    {lower_squeeze, complex_squeeze}, {lower_expand_dims, complex_expand},
    {lower_shape, complex_shape},     {lower_complex_abs, lower_complex_abs},
    {lower_part, lower_part},         {lower_rfft_2d, lower_rfft_2d},
};

lower_fn lite_complex(struct call *c, lower_fn plain)
{
    bool any = false;
    for (uint32_t i = 0; i < c->in.count; i++)
        any |= is_complex(lite_tensor(c, i));
    for (uint32_t i = 0; i < c->out.count; i++)
        any |= is_complex(lite_result(c, i));
    if (!any)
        return plain;
    if (c->code == 18) /* MUL */
        return complex_mul;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].plain == plain)
            return forms[i].lower;
    }
    return NULL;
}
