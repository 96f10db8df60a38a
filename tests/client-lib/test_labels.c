#include <criterion/criterion.h>
#include <math.h>

#include "labels.h"

Test(labels, values_of_every_number_type)
{
    const uint16_t half = 0x3C00, bf16 = 0x3F80;
    const int8_t small = -5;
    const double wide = 2.5;
    struct pen_tensor t = {.dtype = PEN_DTYPE_F16, .data = &half, .bytes = 2};
    cr_assert_eq(tensor_value(&t, 0), 1.0);
    t = (struct pen_tensor){.dtype = PEN_DTYPE_BF16, .data = &bf16, .bytes = 2};
    cr_assert_eq(tensor_value(&t, 0), 1.0);
    t = (struct pen_tensor){.dtype = PEN_DTYPE_I8, .data = &small, .bytes = 1};
    cr_assert_eq(tensor_value(&t, 0), -5.0);
    t = (struct pen_tensor){.dtype = PEN_DTYPE_F64, .data = &wide, .bytes = 8};
    cr_assert_eq(tensor_value(&t, 0), 2.5);
    t = (struct pen_tensor){.dtype = PEN_DTYPE_I4, .data = &small, .bytes = 1};
    cr_assert(isnan(tensor_value(&t, 0)) != 0);
}

static const char *const names[4] = {"a", "b", "c", "d"};

Test(labels, probabilities_are_taken_as_they_are)
{
    const float values[4] = {0.1f, 0.2f, 0.65f, 0.05f};
    struct pen_tensor t = {.name = "y", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 4}, .data = values, .bytes = 16};
    struct label top[3];
    cr_assert_eq(labels_of(&t, names, 4, 3, top), 3);
    cr_assert_str_eq(top[0].text, "c");
    cr_assert_float_eq(top[0].score, 0.65, 1e-6);
    cr_assert_str_eq(top[1].text, "b");
    cr_assert_str_eq(top[2].text, "a");
    cr_assert_eq(top[2].index, 0);
}

Test(labels, logits_go_through_softmax)
{
    const float values[4] = {0.0f, 1000.0f, 999.0f, -5.0f};
    struct pen_tensor t = {.name = "y", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 4}, .data = values, .bytes = 16};
    struct label top[4];
    cr_assert_eq(labels_of(&t, names, 4, 2, top), 2);
    cr_assert_str_eq(top[0].text, "b");
    cr_assert_float_eq(top[0].score, 1.0 / (1.0 + exp(-1.0)), 1e-6);
    cr_assert_eq(labels_of(&t, names, 3, 2, top), 0, "another number of classes");
}

Test(labels, bytes_are_a_quantised_softmax)
{
    const uint8_t unsigned_values[4] = {0, 64, 255, 0};
    const int8_t signed_values[4] = {-128, -64, 127, -128};
    struct pen_tensor t = {
        .name = "y", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {1, 4}, .data = unsigned_values, .bytes = 4};
    for (int i = 0; i < 2; i++) {
        struct label top[4];
        cr_assert_eq(labels_of(&t, names, 4, 2, top), 2);
        cr_assert_str_eq(top[0].text, "c");
        cr_assert_float_eq(top[0].score, 255.0 / 256, 1e-9);
        cr_assert_float_eq(top[1].score, 0.25, 1e-9);
        t.dtype = PEN_DTYPE_I8;
        t.data = signed_values;
    }
}
