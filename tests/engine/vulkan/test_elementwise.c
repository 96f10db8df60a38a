#include <criterion/criterion.h>
#include <string.h>

#include "../xnnpack/cross.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

static const struct {
    enum op op;
    float low, high;
} unary[] = {
    {OP_Abs, -3, 3},           {OP_Acos, -1, 1},
    {OP_Acosh, 1, 9},          {OP_Asin, -1, 1},
    {OP_Asinh, -9, 9},         {OP_Atan, -9, 9},
    {OP_Atanh, -0.99f, 0.99f}, {OP_Ceil, -9, 9},
    {OP_Celu, -5, 5},          {OP_Cos, -40, 40},
    {OP_Cosh, -8, 8},          {OP_Elu, -5, 5},
    {OP_Erf, -4, 4},           {OP_Exp, -20, 9},
    {OP_Floor, -9, 9},         {OP_Gelu, -6, 6},
    {OP_HardSigmoid, -5, 5},   {OP_HardSwish, -5, 5},
    {OP_LeakyRelu, -5, 5},     {OP_Log, 0.01f, 50},
    {OP_Mish, -9, 9},          {OP_Neg, -5, 5},
    {OP_Reciprocal, 0.5f, 5},  {OP_Relu, -5, 5},
    {OP_Round, -5, 5},         {OP_Selu, -5, 5},
    {OP_Shrink, -2, 2},        {OP_Sigmoid, -9, 9},
    {OP_Sign, -2, 2},          {OP_Sin, -40, 40},
    {OP_Sinh, -8, 8},          {OP_Softplus, -20, 20},
    {OP_Softsign, -9, 9},      {OP_Sqrt, 0, 9},
    {OP_Swish, -9, 9},         {OP_Tan, -1.4f, 1.4f},
    {OP_Tanh, -6, 6},          {OP_ThresholdedRelu, -3, 3},
};

static void unary_rows(void)
{
    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++) {
        struct cross *c = cross_new(unary[i].op);
        cross_range(c, unary[i].low, unary[i].high);
        cross_input(c, F32, 3, (int64_t[]){3, 7, 29}, false);
        cross_check(c);
    }
}

Test(vulkan_elementwise, functions, .timeout = 110)
{
    device_f32(unary_rows);
}

static void binary_rows(void)
{
    static const enum op ops[] = {OP_Add, OP_Sub, OP_Mul, OP_Div, OP_Max, OP_Min, OP_Pow};
    static const struct {
        int32_t ra, rb;
        int64_t a[6], b[6];
    } s[] = {
        {3, 3, {4, 5, 6}, {4, 5, 6}},          {3, 1, {4, 5, 6}, {6}},
        {4, 4, {2, 1, 5, 1}, {1, 3, 1, 7}},    {2, 0, {9, 11}, {0}},
        {6, 3, {2, 3, 1, 4, 3, 2}, {4, 1, 1}}, {1, 4, {3}, {2, 2, 2, 3}},
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        for (size_t k = 0; k < sizeof s / sizeof s[0]; k++) {
            struct cross *c = cross_new(ops[i]);
            cross_range(c, 0.5f, 2.0f);
            cross_input(c, F32, s[k].ra, s[k].a, false);
            cross_input(c, F32, s[k].rb, s[k].b, k == 1);
            cross_check(c);
        }
    }
}

Test(vulkan_elementwise, two_inputs_that_broadcast, .timeout = 110)
{
    device_f32(binary_rows);
}

static void typed_rows(void)
{
    static const enum op compare[] = {OP_Equal, OP_Greater, OP_GreaterOrEqual, OP_Less, OP_LessOrEqual};
    static const enum op logic[] = {OP_And, OP_Or, OP_Xor};
    const int64_t shape[2] = {5, 13};
    for (size_t i = 0; i < 5; i++) {
        struct cross *c = cross_new(compare[i]);
        cross_input(c, F32, 2, shape, false);
        cross_input(c, F32, 1, shape + 1, false);
        cross_check(c);
    }
    for (size_t i = 0; i < 3; i++) {
        struct cross *c = cross_new(logic[i]);
        cross_input(c, PEN_DTYPE_BOOL, 2, shape, false);
        cross_input(c, PEN_DTYPE_BOOL, 1, shape + 1, false);
        cross_check(c);
    }
    struct cross *c = cross_new(OP_Not);
    cross_input(c, PEN_DTYPE_BOOL, 2, shape, false);
    cross_check(c);
    c = cross_new(OP_Where);
    cross_input(c, PEN_DTYPE_BOOL, 2, shape, false);
    cross_input(c, F32, 1, shape + 1, false);
    cross_input(c, F32, 2, shape, false);
    cross_check(c);
}

Test(vulkan_elementwise, comparisons_logic_and_choice, .timeout = 110)
{
    device_f32(typed_rows);
}

static const enum pen_dtype whole[] = {PEN_DTYPE_I8,  PEN_DTYPE_U8,  PEN_DTYPE_I32,
                                       PEN_DTYPE_U32, PEN_DTYPE_I64, PEN_DTYPE_U64};
#define WHOLE (sizeof whole / sizeof whole[0])

/* The edges of every type, both ways round. */
static void edges(struct cross *c, enum pen_dtype dtype, const int64_t *dims, int32_t rank, bool turned, bool constant)
{
    static const int64_t values[] = {
        0,   1,    -1,         2,           -7,         127,       -128,      255,
        300, -301, 2147483647, -2147483648, 4294967295, INT64_MAX, INT64_MIN, 6148914691236517205};
    uint64_t words[64];
    size_t count = 1, width = pen_dtype_bits(dtype) / 8;
    for (int32_t d = 0; d < rank; d++) {
        count *= (size_t)dims[d];
    }
    for (size_t i = 0; i < count; i++) {
        int64_t v = values[(turned ? 5 * i + i / 16 + 3 : i) % 16];
        memcpy((char *)words + i * width, &v, width); /* little-endian: the low bytes */
    }
    cross_data(c, dtype, rank, dims, words, constant);
}

static void whole_rows(void)
{
    static const enum op ops[] = {OP_Add,  OP_Sub,         OP_Mul,        OP_Max,
                                  OP_Min,  OP_Equal,       OP_Greater,    OP_GreaterOrEqual,
                                  OP_Less, OP_LessOrEqual, OP_BitwiseAnd, OP_BitwiseXor};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        for (size_t t = 0; t < WHOLE; t++) {
            struct cross *c = cross_new(ops[i]);
            edges(c, whole[t], (int64_t[]){4, 16}, 2, false, false);
            edges(c, whole[t], (int64_t[]){i & 1 ? 4 : 1, 16}, 2, true, false);
            cross_check(c);
        }
    }
}

Test(vulkan_elementwise, whole_numbers_are_exact, .timeout = 110)
{
    device_f32(whole_rows);
}

static void divided_rows(void)
{
    const int64_t divisors[] = {1, 2, 3, 7, 100, 127, 5, 64};
    for (size_t t = 0; t < WHOLE; t++) {
        for (int kind = 0; kind < 3; kind++) {
            struct cross *c = cross_new(kind ? OP_Mod : OP_Div);
            uint64_t words[8] = {0};
            size_t width = pen_dtype_bits(whole[t]) / 8;
            for (size_t i = 0; i < 8; i++) {
                bool below =
                    i & 1 && (whole[t] == PEN_DTYPE_I8 || whole[t] == PEN_DTYPE_I32 || whole[t] == PEN_DTYPE_I64);
                int64_t v = below ? -divisors[i] : divisors[i];
                memcpy((char *)words + i * width, &v, width);
            }
            edges(c, whole[t], (int64_t[]){8, 8}, 2, false, false);
            cross_data(c, whole[t], 1, (int64_t[]){8}, words, true);
            cross_int(c, ATTR_fmod, kind == 2);
            cross_check(c);
        }
    }
    struct cross *c = cross_new(OP_Div); /* a divisor that is computed may be zero: not here */
    edges(c, PEN_DTYPE_I32, (int64_t[]){8}, 1, false, false);
    edges(c, PEN_DTYPE_I32, (int64_t[]){8}, 1, true, false);
    cross_refused(c);
}

Test(vulkan_elementwise, whole_numbers_are_divided, .timeout = 110)
{
    device_f32(divided_rows);
}

static void whole_cast_rows(void)
{
    for (size_t i = 0; i < WHOLE; i++) {
        for (size_t k = 0; k < WHOLE; k++) {
            struct cross *c = cross_new(OP_Cast);
            edges(c, whole[i], (int64_t[]){16}, 1, false, false);
            cross_int(c, ATTR_to, whole[k]);
            cross_check(c);
        }
        struct cross *c = cross_new(OP_Where);
        cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){4, 16}, false);
        edges(c, whole[i], (int64_t[]){4, 16}, 2, false, false);
        edges(c, whole[i], (int64_t[]){16}, 1, true, false);
        cross_check(c);
        c = cross_new(whole[i] == PEN_DTYPE_U8 || whole[i] == PEN_DTYPE_U32 || whole[i] == PEN_DTYPE_U64 ? OP_BitwiseNot
                                                                                                         : OP_Abs);
        edges(c, whole[i], (int64_t[]){16}, 1, false, false);
        cross_check(c);
    }
}

Test(vulkan_elementwise, whole_numbers_are_cast_and_chosen, .timeout = 110)
{
    device_f32(whole_cast_rows);
}

static void cast_rows(void)
{
    static const enum pen_dtype types[] = {F32,          PEN_DTYPE_BOOL, PEN_DTYPE_U8,
                                           PEN_DTYPE_I8, PEN_DTYPE_I32,  PEN_DTYPE_I64};
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < 6; k++) {
            struct cross *c = cross_new(OP_Cast);
            cross_range(c, 0.0f, 100.0f);
            cross_input(c, types[i], 1, (int64_t[]){77}, false);
            cross_int(c, ATTR_to, types[k]);
            cross_check(c);
        }
    }
}

Test(vulkan_elementwise, casts, .timeout = 110)
{
    device_f32(cast_rows);
}

/* Every storage and both families see the common ones. */
static void few_rows(void)
{
    for (int i = 0; i < 2; i++) {
        struct cross *c = cross_new(i ? OP_Mul : OP_Sigmoid);
        cross_input(c, F32, 4, (int64_t[]){2, 5, 3, 7}, false);
        if (i) {
            cross_input(c, F32, 4, (int64_t[]){2, 1, 1, 7}, true);
        }
        cross_check(c);
    }
}

Test(vulkan_elementwise, every_storage, .timeout = 110)
{
    device_each(few_rows);
}
