/*
 * The basic form of LSTM: one step, with weights [4 units, in + units] for data and state side by side and gates in the order i, g, f, o. Sources: TFLite's
 * LstmCell in floats and in integers.
 */
#include <math.h>

#include "import/build/build.h"
#include "import/tflite/reader.h"

enum { BASIC_X, BASIC_H, BASIC_WEIGHTS, BASIC_BIAS, BASIC_CELL, BASIC_IN };
enum { BASIC_Y, BASIC_NEXT, BASIC_JOINED, BASIC_SUMS };
enum { GATE_I, GATE_G, GATE_F, GATE_O };

#define BYTE_ZERO  128 /* of data and state, whatever the file says */
#define SUM_STEP   0x1p-12f
#define GATE_STEP  0x1p-15f
#define CELL_STEP  0x1p-11f
#define STATE_STEP 0x1p-7f
#define HALVES_OUT (1.0f + 0x1p-20f) /* what ends in a half is rounded away from zero */

static uint32_t quarter(struct build *b, uint32_t x, int64_t which, int64_t units)
{
    return build_slice(b, x, 1, which * units, (which + 1) * units, 1);
}

static void basic_floats(struct call *c, int64_t units)
{
    struct build *b = c->b;
    uint32_t joined[] = {lite_real(c, BASIC_X), lite_real(c, BASIC_H)}, all = build_axis_op(b, OP_Concat, joined, 2, 1);
    uint32_t sums = build_3(b, OP_Gemm, all, lite_real(c, BASIC_WEIGHTS), lite_real(c, BASIC_BIAS));
    build_int(b, ATTR_transB, 1);
    uint32_t in = build_1(b, OP_Sigmoid, quarter(b, sums, GATE_I, units));
    uint32_t fresh = build_1(b, OP_Tanh, quarter(b, sums, GATE_G, units));
    uint32_t forget = build_1(b, OP_Sigmoid, quarter(b, sums, GATE_F, units));
    uint32_t out = build_1(b, OP_Sigmoid, quarter(b, sums, GATE_O, units));
    uint32_t kept = build_2(b, OP_Mul, forget, lite_real(c, BASIC_CELL));
    uint32_t cell = build_2(b, OP_Add, kept, build_2(b, OP_Mul, in, fresh));
    lite_give(c, BASIC_Y, build_2(b, OP_Mul, out, build_1(b, OP_Tanh, cell)));
    lite_give(c, BASIC_NEXT, cell);
    lite_give(c, BASIC_JOINED, all);
    lite_give(c, BASIC_SUMS, sums);
}

/* ---- integers: bytes without a sign, sums and cell of 16 bits in steps that are fixed -------------------------------------------------- */

static bool has(const struct tensor *t, enum pen_dtype dtype)
{
    return t && t->dtype == dtype && t->quant.count == 1 && t->quant.scale[0] > 0.0f;
}

static bool integers_fit(struct call *c)
{
    const struct tensor *cell = lite_result(c, BASIC_NEXT);
    return has(lite_tensor(c, BASIC_X), PEN_DTYPE_U8) && has(lite_tensor(c, BASIC_H), PEN_DTYPE_U8) &&
           has(lite_tensor(c, BASIC_WEIGHTS), PEN_DTYPE_U8) && has(lite_tensor(c, BASIC_BIAS), PEN_DTYPE_I32) &&
           has(lite_tensor(c, BASIC_CELL), PEN_DTYPE_I16) && has(lite_result(c, BASIC_Y), PEN_DTYPE_U8) &&
           has(cell, PEN_DTYPE_I16) && cell->quant.scale[0] == CELL_STEP;
}

/* Real numbers as codes of this step. */
static uint32_t codes(struct build *b, uint32_t x, float step, enum pen_dtype dtype, int zero)
{
    return build_3(b, OP_QuantizeLinear, x, build_f32_scalar(b, step), build_scalar(b, dtype, zero));
}

static uint32_t meaning(struct build *b, uint32_t x, float step)
{
    return build_3(b, OP_DequantizeLinear, x, build_f32_scalar(b, step), build_scalar(b, PEN_DTYPE_I16, 0));
}

/* The exact sums in steps of the gates, as the interpreter has them: rounded after a factor in [1/2, 1), then after the shift, where halves go up. */
static uint32_t sums_codes(struct call *c, uint32_t all)
{
    struct build *b = c->b;
    const struct tensor *w = lite_tensor(c, BASIC_WEIGHTS), *bias = lite_tensor(c, BASIC_BIAS);
    uint32_t in[] = {all, build_transpose(b, lite_in(c, BASIC_WEIGHTS), (int64_t[]){1, 0}, 2),
                     build_scalar(b, PEN_DTYPE_U8, BYTE_ZERO), build_scalar(b, PEN_DTYPE_U8, w->quant.zero_point[0])};
    uint32_t sums = build_2(b, OP_Add, build_op(b, OP_MatMulInteger, in, 4), lite_in(c, BASIC_BIAS));
    int shift = 0;
    const float factor = frexpf(bias->quant.scale[0] / SUM_STEP, &shift), left = ldexpf(factor, shift > 0 ? shift : 0);
    sums = build_1(b, OP_Round, build_2(b, OP_Mul, build_cast(b, sums, PEN_DTYPE_F32), build_f32_scalar(b, left)));
    if (shift < 0) {
        sums = build_2(b, OP_Mul, sums, build_f32_scalar(b, ldexpf(1.0f, shift)));
        sums = build_1(b, OP_Floor, build_2(b, OP_Add, sums, build_f32_scalar(b, 0.5f)));
    }
    return codes(b, sums, 1.0f, PEN_DTYPE_I16, 0);
}

static uint32_t gate(struct call *c, enum op op, uint32_t sums, int64_t which, int64_t units)
{
    return meaning(c->b, lite_gate(c, op, quarter(c->b, sums, which, units), SUM_STEP), GATE_STEP);
}

/* f c + i g, of which each product has been rounded. */
static uint32_t cell_codes(struct call *c, uint32_t sums, int64_t units)
{
    struct build *b = c->b;
    uint32_t in = gate(c, OP_Sigmoid, sums, GATE_I, units), new = gate(c, OP_Tanh, sums, GATE_G, units);
    uint32_t cell = meaning(b, lite_in(c, BASIC_CELL), CELL_STEP);
    uint32_t kept = build_2(b, OP_Mul, gate(c, OP_Sigmoid, sums, GATE_F, units), cell);
    uint32_t fresh = codes(b, build_2(b, OP_Mul, in, new), GATE_STEP, PEN_DTYPE_I16, 0);
    fresh = build_2(b, OP_Mul, meaning(b, fresh, GATE_STEP), build_f32_scalar(b, HALVES_OUT));
    kept = meaning(b, codes(b, kept, CELL_STEP, PEN_DTYPE_I16, 0), CELL_STEP);
    fresh = meaning(b, codes(b, fresh, CELL_STEP, PEN_DTYPE_I16, 0), CELL_STEP);
    return codes(b, build_2(b, OP_Add, kept, fresh), CELL_STEP, PEN_DTYPE_I16, 0);
}

static void basic_integers(struct call *c, int64_t units)
{
    struct build *b = c->b;
    uint32_t joined[] = {lite_in(c, BASIC_X), lite_in(c, BASIC_H)}, all = build_axis_op(b, OP_Concat, joined, 2, 1);
    uint32_t sums = sums_codes(c, all), cell = cell_codes(c, sums, units);
    uint32_t bent = meaning(b, lite_gate(c, OP_Tanh, cell, CELL_STEP), GATE_STEP);
    uint32_t y = build_2(b, OP_Mul, gate(c, OP_Sigmoid, sums, GATE_O, units), bent);
    lite_give(c, BASIC_Y, codes(b, y, STATE_STEP, PEN_DTYPE_U8, BYTE_ZERO));
    lite_give(c, BASIC_NEXT, cell);
    lite_give(c, BASIC_JOINED, all);
    lite_give(c, BASIC_SUMS, sums);
}

void lite_lstm_basic(struct call *c)
{
    const struct tensor *bias = lite_tensor(c, BASIC_BIAS), *w = lite_tensor(c, BASIC_WEIGHTS);
    const bool integers = lite_quantised(c, BASIC_X);
    if (!bias || !w || bias->shape.rank != 1 || bias->shape.dim[0] % 4 != 0 || w->shape.rank != 2) {
        build_miss(c->b, "LSTM with weights of the wrong shape");
        return;
    }
    if (integers && !integers_fit(c)) {
        build_miss(c->b, "basic LSTM of integers whose data has a sign, or whose cell has another step than 2^-11");
        return;
    }
    if (integers)
        basic_integers(c, bias->shape.dim[0] / 4);
    else
        basic_floats(c, bias->shape.dim[0] / 4);
}
