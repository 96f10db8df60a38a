/*
 * Random numbers. A seed gives the numbers that TensorFlow.js draws with it (RandomUniform: those that it would draw if it used its seed), the same in every run;
 * without a seed every run draws others.
 */
#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static void seed(struct call *c)
{
    int64_t first = js_attr_int(c, "seed", 0), second = js_attr_int(c, "seed2", 0);
    if (first != 0 || second != 0)
        build_int(c->b, ATTR_alea, first != 0 ? first : second);
}

/* Of the shape that input 0 says. */
static uint32_t drawn(struct call *c, enum op op, enum pen_dtype dtype)
{
    uint32_t y = build_1(c->b, op, tf_fill(c->b, js_i64(c, 0), build_f32_scalar(c->b, 0.0f)));
    build_int(c->b, ATTR_dtype, dtype);
    seed(c);
    return y;
}

/* TF.js reads the limits of RandomUniform from attributes. */
static void uniform(struct call *c)
{
    uint32_t y = drawn(c, OP_RandomUniformLike, PEN_DTYPE_F32);
    build_float(c->b, ATTR_low, js_attr_float(c, "minval", 0.0f));
    build_float(c->b, ATTR_high, js_attr_float(c, "maxval", 1.0f));
    js_give(c, 0, y);
}

/* shape, lowest, limit: as TensorFlow feeds them; TF.js reads the two from attributes, and cuts what it draws towards zero. */
static void uniform_int(struct call *c)
{
    struct build *b = c->b;
    uint32_t y = drawn(c, OP_RandomUniformLike, PEN_DTYPE_F64);
    if (c->in_count >= 3) {
        uint32_t low = build_cast(b, js_in(c, 1), PEN_DTYPE_F64), high = build_cast(b, js_in(c, 2), PEN_DTYPE_F64);
        y = build_2(b, OP_Mul, y, build_2(b, OP_Sub, high, low));
        y = build_2(b, OP_Add, build_1(b, OP_Floor, y), low);
    } else {
        double low = (double)js_attr_int(c, "minval", 0), high = (double)js_attr_int(c, "maxval", 1);
        y = build_2(b, OP_Mul, y, build_scalar(b, PEN_DTYPE_F64, high - low));
        y = build_2(b, OP_Add, y, build_scalar(b, PEN_DTYPE_F64, low));
    }
    js_give(c, 0, build_cast(b, y, PEN_DTYPE_I32));
}

static void normal(struct call *c)
{
    uint32_t y = drawn(c, OP_RandomNormalLike, PEN_DTYPE_F32);
    build_int(c->b, ATTR_truncated, c->op);
    if (c->op == 1) { /* TF.js reads these, TensorFlow has none */
        build_float(c->b, ATTR_mean, js_attr_float(c, "means", 0.0f));
        build_float(c->b, ATTR_scale, js_attr_float(c, "stddev", 1.0f));
    }
    js_give(c, 0, y);
}

/* logits, number of draws */
static void multinomial(struct call *c)
{
    int64_t draws;
    if (!js_scalar(c, 1, &draws))
        return;
    uint32_t y = build_1(c->b, OP_Multinomial, js_in(c, 0));
    build_int(c->b, ATTR_sample_size, draws);
    seed(c);
    js_give(c, 0, build_cast(c->b, y, PEN_DTYPE_I32));
}

const struct tfjs_row js_rows_random[] = {
    JS_ROW(Multinomial, multinomial, 0), JS_ROW(RandomStandardNormal, normal, 0),
    JS_ROW(RandomUniform, uniform, 0),   JS_ROW(RandomUniformInt, uniform_int, 0),
    JS_ROW(TruncatedNormal, normal, 1),  {NULL, NULL, 0},
};
