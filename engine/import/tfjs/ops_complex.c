/* Complex numbers: a last dimension of 2 more, real and imaginary part, as ONNX's DFT has them. They live between Complex or RFFT and Real, Imag or IRFFT. */
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

static void complex(struct call *c)
{
    js_give(c, 0, joined(c, js_in(c, 0), js_in(c, 1)));
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
