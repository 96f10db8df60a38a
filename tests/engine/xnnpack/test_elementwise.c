#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static void unary(enum op op, float low, float high)
{
    const int64_t sizes[] = {1, 7, 16, 33, 1000, 40001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cross *c = cross_new(op);
        cross_range(c, low, high);
        cross_input(c, F32, 1, &sizes[i], false);
        cross_check(c);
    }
}

Test(xnnpack_unary, functions)
{
    const struct {
        enum op op;
        float low, high;
    } rows[] = {
        {OP_Abs, -3, 3},         {OP_Neg, -3, 3},           {OP_Ceil, -3, 3},
        {OP_Floor, -3, 3},       {OP_Round, -3, 3},         {OP_Sqrt, 0, 9},
        {OP_Reciprocal, 1, 9},   {OP_Sign, -1, 1},          {OP_Relu, -3, 3},
        {OP_LeakyRelu, -3, 3},   {OP_Elu, -9, 3},           {OP_Selu, -9, 3},
        {OP_Celu, -9, 3},        {OP_Exp, -20, 20},         {OP_Log, 0.001f, 90},
        {OP_Sigmoid, -30, 30},   {OP_Tanh, -12, 12},        {OP_Erf, -5, 5},
        {OP_Gelu, -8, 8},        {OP_Softplus, -30, 30},    {OP_Softsign, -9, 9},
        {OP_HardSigmoid, -9, 9}, {OP_HardSwish, -9, 9},     {OP_Swish, -30, 30},
        {OP_Mish, -30, 30},      {OP_Shrink, -2, 2},        {OP_ThresholdedRelu, -2, 2},
        {OP_Sin, -9, 9},         {OP_Cos, -9, 9},           {OP_Tan, -1, 1},
        {OP_Asin, -1, 1},        {OP_Acos, -1, 1},          {OP_Atan, -9, 9},
        {OP_Sinh, -5, 5},        {OP_Cosh, -5, 5},          {OP_Asinh, -9, 9},
        {OP_Acosh, 1, 9},        {OP_Atanh, -0.99f, 0.99f},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unary(rows[i].op, rows[i].low, rows[i].high);
    }
}

Test(xnnpack_unary, ends_of_the_number_line)
{
    const float odd[] = {
        0.0f,  -0.0f, 1e-40f,  -1e-40f, 1e-30f, 3e38f, -3e38f, __builtin_inff(), -__builtin_inff(), __builtin_nanf(""),
        88.7f, 89.0f, -103.0f, -104.0f, 1.0f,   -1.0f, 0.5f};
    const enum op ops[] = {OP_Exp,  OP_Log, OP_Sigmoid,  OP_Tanh,  OP_Erf,  OP_Relu,
                           OP_Sqrt, OP_Abs, OP_Softplus, OP_Floor, OP_Round};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct cross *c = cross_new(ops[i]);
        cross_data(c, F32, 1, (int64_t[]){17}, odd, false);
        cross_check(c);
    }
}

Test(xnnpack_unary, clip_limits_are_inputs)
{
    for (int form = 0; form < 4; form++) {
        struct cross *c = cross_new(OP_Clip);
        cross_input(c, F32, 2, (int64_t[]){5, 77}, false);
        form & 1 ? cross_data(c, F32, 0, NULL, &(float){-0.25f}, (form & 2) != 0) : cross_omit(c);
        cross_data(c, F32, 0, NULL, &(float){0.5f}, (form & 2) == 0);
        cross_check(c);
    }
}

static void binary(enum op op, enum pen_dtype dtype, int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b,
                   float low, float high)
{
    struct cross *c = cross_new(op);
    cross_range(c, low, high);
    cross_input(c, dtype, rank_a, a, false);
    cross_input(c, dtype, rank_b, b, cross_pick(0, 1) != 0);
    cross_check(c);
}

static void shapes(enum op op, enum pen_dtype dtype, float low, float high)
{
    binary(op, dtype, 4, (int64_t[]){2, 7, 7, 33}, 4, (int64_t[]){2, 7, 7, 33}, low, high);
    binary(op, dtype, 4, (int64_t[]){2, 7, 7, 33}, 1, (int64_t[]){33}, low, high);
    binary(op, dtype, 4, (int64_t[]){2, 7, 7, 33}, 4, (int64_t[]){2, 1, 1, 33}, low, high);
    binary(op, dtype, 3, (int64_t[]){2, 40, 33}, 3, (int64_t[]){2, 40, 1}, low, high);
    binary(op, dtype, 3, (int64_t[]){2, 1, 33}, 3, (int64_t[]){2, 40, 1}, low, high);
    binary(op, dtype, 2, (int64_t[]){300, 100}, 0, NULL, low, high);
    binary(op, dtype, 0, NULL, 2, (int64_t[]){300, 101}, low, high);
    binary(op, dtype, 5, (int64_t[]){2, 1, 3, 1, 5}, 5, (int64_t[]){1, 4, 1, 6, 1}, low, high);
    binary(op, dtype, 2, (int64_t[]){3, 0}, 1, (int64_t[]){1}, low, high);
}

Test(xnnpack_binary, arithmetic_broadcasts)
{
    const enum op ops[] = {OP_Add, OP_Sub, OP_Mul, OP_Max, OP_Min};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        shapes(ops[i], F32, -2, 2);
        shapes(ops[i], PEN_DTYPE_I64, 0, 0);
        shapes(ops[i], PEN_DTYPE_I32, 0, 0);
    }
    shapes(OP_Div, F32, 0.5f, 2);
    shapes(OP_Pow, F32, 0.5f, 2);
    binary(OP_PRelu, F32, 4, (int64_t[]){1, 5, 5, 24}, 1, (int64_t[]){24}, -1, 1);
    binary(OP_PRelu, F32, 4, (int64_t[]){1, 5, 5, 24}, 4, (int64_t[]){1, 1, 1, 24}, -1, 1);
}

Test(xnnpack_binary, fused_activation)
{
    const int64_t acts[] = {ACT_CLAMP, ACT_HARDSWISH, ACT_SIGMOID, ACT_LEAKY, ACT_TANH, ACT_SWISH};
    for (size_t i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_Add);
        cross_input(c, F32, 2, (int64_t[]){30, 700}, false);
        cross_input(c, F32, 2, (int64_t[]){30, 700}, false);
        cross_int(c, ATTR_act, acts[i]);
        cross_float(c, ATTR_act_min, 0.0f);
        cross_float(c, ATTR_act_max, 0.5f);
        cross_check(c);
    }
}

Test(xnnpack_binary, more_than_two_inputs)
{
    const enum op ops[] = {OP_Max, OP_Min, OP_Sum, OP_Mean};
    for (size_t i = 0; i < 4; i++) {
        for (int count = 1; count <= 4; count++) {
            struct cross *c = cross_new(ops[i]);
            for (int k = 0; k < count; k++) {
                cross_input(c, F32, 3, (int64_t[]){k == 1 ? 1 : 4, 5, 19}, k == 2);
            }
            cross_check(c);
        }
    }
}

/* Some dims of each input are 1, rows are short and long: every form of broadcasting. */
Test(xnnpack_binary, every_form_of_broadcasting)
{
    for (unsigned i = 0; i < 256; i++) {
        const int64_t dims[4] = {cross_pick(1, 3), cross_pick(1, 30), cross_pick(1, 12),
                                 i % 5 == 0 ? cross_pick(500, 1100) : cross_pick(1, 70)};
        int64_t in[2][4];
        for (unsigned k = 0; k < 8; k++) {
            in[k / 4][k % 4] = i >> k & 1 ? 1 : dims[k % 4];
        }
        struct cross *c = cross_new(i % 3 == 0 ? OP_Sub : i % 3 == 1 ? OP_Mul : OP_Max);
        cross_input(c, F32, 4, in[0], false);
        cross_input(c, F32, 4, in[1], false);
        cross_check(c);
    }
}
