/* Hybrid products (dynamic-range models): floats times weights of 8 or 4 bits. The rounded data and the weights meet as floats, which holds their sums nearly exactly. */
#include "import/build/build.h"
#include "import/tflite/reader.h"

bool lite_hybrid(struct call *c, uint32_t index, uint32_t weights)
{
    const struct tensor *x = lite_tensor(c, index), *w = lite_tensor(c, weights);
    return x && w && x->dtype == PEN_DTYPE_F32 && lite_quantised(c, weights) && w->dtype == PEN_DTYPE_I8;
}

uint32_t lite_rounded(struct call *c, uint32_t x, int64_t axis, bool asymmetric)
{
    uint32_t y = build_1(c->b, OP_RowRounding, x);
    build_int(c->b, ATTR_axis, axis);
    if (!asymmetric)
        build_int(c->b, ATTR_symmetric, 1);
    return y;
}

uint32_t lite_product_data(struct call *c, uint32_t index, uint32_t weights, int64_t axis, bool asymmetric)
{
    uint32_t x = lite_real(c, index);
    return lite_hybrid(c, index, weights) ? lite_rounded(c, x, axis, asymmetric) : x;
}

uint32_t lite_steps_of(struct build *b, uint32_t x, const struct quant *q, enum pen_dtype dtype)
{
    bool wide = dtype == PEN_DTYPE_I16;
    float zero = (float)q->zero_point[0], low = wide ? -32768.0f : -128.0f, high = wide ? 32767.0f : 127.0f;
    uint32_t scale = build_f32_scalar(b, q->scale[0]), y = build_1(b, OP_Round, build_2(b, OP_Div, x, scale));
    y = build_3(b, OP_Clip, y, build_f32_scalar(b, low - zero), build_f32_scalar(b, high - zero));
    return build_2(b, OP_Mul, y, scale);
}
