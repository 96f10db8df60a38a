/* Complex numbers: a last dimension of 2 more, real and imaginary part, as ONNX's DFT has them. They live between Complex or RFFT and Real, Imag or IRFFT. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static uint32_t part_of(struct call *c, uint32_t z, int64_t part)
{
    uint32_t in[] = {z, build_i64_scalar(c->b, part)};
    return build_axis_op(c->b, OP_Gather, in, 2, -1);
}

static uint32_t joined(struct call *c, uint32_t re, uint32_t im)
{
    uint32_t parts[] = {build_unsqueeze(c->b, re, -1), build_unsqueeze(c->b, im, -1)};
    return build_axis_op(c->b, OP_Concat, parts, 2, -1);
}

/* x over the shape that x and y have together. */
static uint32_t spread(struct call *c, uint32_t x, uint32_t y)
{
    return build_2(c->b, OP_Expand, x, build_1(c->b, OP_Shape, y));
}

/* The parts may be of different shapes: an imaginary part of one zero is common. */
static void complex(struct call *c)
{
    uint32_t re = js_in(c, 0), im = js_in(c, 1);
    const struct value *x = build_value(c->b, re), *y = build_value(c->b, im);
    bool same = x && y && shape_known(&x->shape) && shape_equal(&x->shape, &y->shape);
    js_give(c, 0, same ? joined(c, re, im) : joined(c, spread(c, re, im), spread(c, im, re)));
}

bool js_complex_cast(struct call *c, enum pen_dtype to)
{
    bool from = js_attr_dtype(c, "SrcT", PEN_DTYPE_F32) == PEN_DTYPE_C64;
    if (to == PEN_DTYPE_C64) {
        uint32_t re = from ? VALUE_NONE : build_cast(c->b, js_in(c, 0), PEN_DTYPE_F32);
        js_give(c, 0, from ? js_in(c, 0) : joined(c, re, spread(c, build_scalar(c->b, PEN_DTYPE_F32, 0), re)));
    } else if (from) {
        js_give(c, 0, build_cast(c->b, part_of(c, js_in(c, 0), 0), to));
    }
    return from || to == PEN_DTYPE_C64;
}

static void part(struct call *c)
{
    js_give(c, 0, part_of(c, js_in(c, 0), c->op));
}

static void magnitude(struct call *c)
{
    js_give(c, 0, build_reduce(c->b, OP_ReduceL2, js_in(c, 0), build_i64(c->b, (int64_t[]){-1}, 1), false));
}

static uint32_t transform(struct call *c, uint32_t x, uint32_t length, bool inverse, bool onesided)
{
    uint32_t in[] = {x, length, build_i64_scalar(c->b, -2)}, y = build_op(c->b, OP_DFT, in, 3);
    build_int(c->b, ATTR_inverse, inverse);
    build_int(c->b, ATTR_onesided, onesided);
    return y;
}

static void fft(struct call *c)
{
    js_give(c, 0, transform(c, js_in(c, 0), VALUE_NONE, c->op == 1, false));
}

static uint32_t length_in(struct call *c)
{
    return build_reshape(c->b, build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64), NULL, 0);
}

static void rfft(struct call *c)
{
    js_give(c, 0, transform(c, build_unsqueeze(c->b, js_in(c, 0), -1), length_in(c), false, true));
}

static void irfft(struct call *c)
{
    js_give(c, 0, build_squeeze(c->b, transform(c, js_in(c, 0), length_in(c), true, true), -1));
}

/* (a + bi)(c + di) = ac - bd + (ad + bc)i */
bool js_complex_mul(struct call *c)
{
    struct build *b = c->b;
    if (js_attr_dtype(c, "T", PEN_DTYPE_F32) != PEN_DTYPE_C64)
        return false;
    uint32_t x = js_in(c, 0), y = js_in(c, 1);
    uint32_t a = part_of(c, x, 0), bi = part_of(c, x, 1), re = part_of(c, y, 0), di = part_of(c, y, 1);
    js_give(c, 0,
            joined(c, build_2(b, OP_Sub, build_2(b, OP_Mul, a, re), build_2(b, OP_Mul, bi, di)),
                   build_2(b, OP_Add, build_2(b, OP_Mul, a, di), build_2(b, OP_Mul, bi, re))));
    return true;
}

/* What an operator moves of its first input has the same place in both parts. */
bool js_complex_parts(struct call *c, lower_fn lower)
{
    static const char *const movers[] = {"BroadcastTo", "ExpandDims", "GatherV2",     "Pad",  "Reshape",  "ReverseV2",
                                         "Slice",       "Squeeze",    "StridedSlice", "Tile", "Transpose"};
    bool moves = false;
    for (size_t i = 0; i < sizeof movers / sizeof movers[0]; i++)
        moves = moves || strcmp(c->n->op, movers[i]) == 0;
    if (!moves || c->in_count == 0 ||
        js_attr_dtype(c, strcmp(c->n->op, "GatherV2") == 0 ? "Tparams" : "T", PEN_DTYPE_F32) != PEN_DTYPE_C64)
        return false;
    uint32_t z = c->in[0], parts[2] = {VALUE_NONE, VALUE_NONE};
    for (uint32_t i = 0; i < 2; i++) {
        c->in[0] = part_of(c, z, i);
        lower(c);
        parts[i] = c->n->out_count > 0 ? c->n->out[0] : VALUE_NONE;
    }
    c->in[0] = z;
    js_give(c, 0, joined(c, parts[0], parts[1]));
    return true;
}

const struct tfjs_row js_rows_complex[] = {
    JS_ROW(Complex, complex, 0),
    JS_ROW(Real, part, 0),
    JS_ROW(Imag, part, 1),
    JS_ROW(ComplexAbs, magnitude, 0),
    JS_ROW(FFT, fft, 0),
    JS_ROW(IFFT, fft, 1),
    JS_ROW(RFFT, rfft, 0),
    JS_ROW(IRFFT, irfft, 0),
    {NULL, NULL, 0},
};
