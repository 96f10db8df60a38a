/* The table of tolerances, and comparing by it: floats, 16-bit floats, integers, quantised models. */
#include <criterion/criterion.h>
#include <string.h>

#include "tools/case.h"

static struct rt_value vector(enum pen_dtype dtype, void *data, int64_t count)
{
    return (struct rt_value){
        .kind = VALUE_TENSOR, .dtype = dtype, .shape = shape_of(1, &count), .data = data, .bytes = (size_t)count};
}

static bool fits(enum pen_dtype dtype, void *got, void *want, int64_t count, struct tolerance t, double noise,
                 double step)
{
    struct comparison c = {0};
    struct rt_value a = vector(dtype, got, count), b = vector(dtype, want, count);
    bool same = compare_value(&a, &b, &t, noise, step, "y", &c);
    cr_assert_eq(same, c.reason[0] == '\0', "a failure has a reason, a fit has none: '%s'", c.reason);
    return same;
}

static bool float_fits(float got, float want, struct tolerance t, double noise)
{
    /* The last element sets the range to 10. */
    return fits(PEN_DTYPE_F32, (float[]){0, got, 10}, (float[]){0, want, 10}, 3, t, noise, 0);
}

Test(tolerance, suite_is_relative)
{
    struct tolerance t = tolerance_suite("node/test_conv", PEN_PRECISION_F32);
    cr_assert(float_fits(5.0049f, 5.0f, t, 0));
    cr_assert_not(float_fits(5.0051f, 5.0f, t, 0));
    cr_assert_not(float_fits(2e-7f, 0, t, 0));
    cr_assert(float_fits(2e-7f, 0, tolerance_suite("node/test_dft_inverse_opset19", PEN_PRECISION_F32), 0));
    cr_assert_not(float_fits(2e-5f, 0, tolerance_suite("node/test_dft_inverse", PEN_PRECISION_F32), 0));
    cr_assert_not(float_fits(2e-7f, 0, tolerance_suite("test_dft_inverse/other", PEN_PRECISION_F32), 0));
}

Test(tolerance, narrower_precisions_get_wider_bounds)
{
    cr_assert(float_fits(5.051f, 5.0f, tolerance_suite("a", PEN_PRECISION_F16_STORAGE), 0));
    cr_assert(float_fits(5.051f, 5.0f, tolerance_suite("a", PEN_PRECISION_BF16), 0));
    cr_assert_not(float_fits(5.053f, 5.0f, tolerance_suite("a", PEN_PRECISION_F16_MMA), 0));
    cr_assert(float_fits(5.2f, 5.0f, tolerance_suite("a", PEN_PRECISION_F16_MATH), 0));
    cr_assert_not(float_fits(5.051f, 5.0f, tolerance_suite("a", PEN_PRECISION_INT8), 0));
    cr_assert(float_fits(5.0005f, 5.0f, tolerance_operator(PEN_PRECISION_F32, false), 0));
    cr_assert_not(float_fits(5.0006f, 5.0f, tolerance_operator(PEN_PRECISION_F32, false), 0));
    cr_assert(float_fits(5.051f, 5.0f, tolerance_operator(PEN_PRECISION_F16_STORAGE, false), 0));
}

Test(tolerance, golden_is_by_range_or_noise)
{
    struct tolerance t = tolerance_golden(PEN_PRECISION_F32, false, false);
    t.nmse = 0;
    cr_assert(float_fits(5.0009f, 5.0f, t, 0));
    cr_assert_not(float_fits(5.0011f, 5.0f, t, 0));
    cr_assert(float_fits(5.0028f, 5.0f, t, 1e-4)); /* three times the noise */
    cr_assert_not(float_fits(5.0032f, 5.0f, t, 1e-4));
    t.nmse = 1e-9; /* 0.0009^2 / 125 is more */
    cr_assert_not(float_fits(5.0009f, 5.0f, t, 0));
    cr_assert(float_fits(5.0003f, 5.0f, t, 0));
}

Test(tolerance, classifiers_must_agree_on_the_first)
{
    struct tolerance t = tolerance_golden(PEN_PRECISION_F32, false, true);
    float got[3] = {0, 10.00001f, 10}, want[3] = {0, 10, 10.00001f}, tie[3] = {0, 10.00001f, 10.00001f};
    cr_assert_not(fits(PEN_DTYPE_F32, got, want, 3, t, 0, 0));
    cr_assert(fits(PEN_DTYPE_F32, got, tie, 3, t, 0, 0), "both are the largest of the expected output");
    t.top1 = false;
    cr_assert(fits(PEN_DTYPE_F32, got, want, 3, t, 0, 0));
}

Test(tolerance, quantised_models_have_two_steps)
{
    struct tolerance t = tolerance_golden(PEN_PRECISION_F32, true, false);
    uint8_t want[3] = {7, 9, 200}, two[3] = {9, 7, 198}, three[3] = {7, 9, 197}, other[3] = {201, 9, 200};
    cr_assert(fits(PEN_DTYPE_U8, two, want, 3, t, 0, 0));
    cr_assert_not(fits(PEN_DTYPE_U8, three, want, 3, t, 0, 0));
    uint8_t near[3] = {199, 9, 200};
    cr_assert_not(fits(PEN_DTYPE_U8, other, near, 3, t, 0, 0), "another first");
    /* The same behind a DequantizeLinear of scale 0.5. */
    float steps[3] = {3.5f, 4.5f, 100}, near_steps[3] = {4.5f, 3.5f, 99}, far_steps[3] = {5, 4.5f, 100};
    cr_assert(fits(PEN_DTYPE_F32, near_steps, steps, 3, t, 0, 0.5));
    cr_assert_not(fits(PEN_DTYPE_F32, far_steps, steps, 3, t, 0, 0.5));
    struct tolerance one = tolerance_operator(PEN_PRECISION_F32, true);
    cr_assert_not(fits(PEN_DTYPE_U8, two, want, 3, one, 0, 0));
    cr_assert(fits(PEN_DTYPE_U8, (uint8_t[]){8, 9, 199}, want, 3, one, 0, 0));
}

Test(tolerance, integers_are_exact)
{
    struct tolerance t = tolerance_suite("a", PEN_PRECISION_F32);
    int64_t want[2] = {1000000, -3}, near[2] = {1000001, -3};
    cr_assert(fits(PEN_DTYPE_I64, want, want, 2, t, 0, 0));
    cr_assert_not(fits(PEN_DTYPE_I64, near, want, 2, t, 0, 0));
    int64_t large[1] = {((int64_t)1 << 60) + 1}, larger[1] = {((int64_t)1 << 60) + 2};
    cr_assert_not(fits(PEN_DTYPE_I64, large, larger, 1, t, 0, 0), "beyond the digits of a double");
}

Test(tolerance, sixteen_bit_outputs_may_be_a_unit_off)
{
    struct tolerance t = tolerance_golden(PEN_PRECISION_F32, false, false);
    uint16_t want[2] = {0x4900, 0x4700}, unit[2] = {0x4900, 0x4701}, three[2] = {0x4900, 0x4703}; /* 10, 7, ... */
    cr_assert(fits(PEN_DTYPE_F16, unit, want, 2, t, 0, 0));
    cr_assert_not(fits(PEN_DTYPE_F16, three, want, 2, t, 0, 0));
}

Test(tolerance, dtypes_and_shapes_must_be_equal)
{
    struct tolerance t = tolerance_suite("a", PEN_PRECISION_F32);
    struct comparison c = {0};
    float data[4] = {0};
    struct rt_value a = vector(PEN_DTYPE_F32, data, 2), b = vector(PEN_DTYPE_I32, data, 2);
    cr_assert_not(compare_value(&a, &b, &t, 0, 0, "y", &c));
    b = vector(PEN_DTYPE_F32, data, 3);
    cr_assert_not(compare_value(&a, &b, &t, 0, 0, "y", &c));
    b = a;
    b.shape = shape_of(2, (int64_t[]){1, 2});
    cr_assert_not(compare_value(&a, &b, &t, 0, 0, "y", &c));
    struct rt_value none = {.kind = VALUE_SEQUENCE}, one = {.kind = VALUE_SEQUENCE, .items = &a, .item_count = 1};
    cr_assert_not(compare_value(&none, &one, &t, 0, 0, "y", &c));
    cr_assert(compare_value(&one, &one, &t, 0, 0, "y", &c));
}
