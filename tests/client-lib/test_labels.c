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

static const char *const texts[4] = {"a", "b", "c", "d"};
static const struct label_names names = {texts, 4, false}, three = {texts, 3, false}, numbers = {NULL, 0, true},
                                nothing = {NULL, 0, false};

Test(labels, probabilities_are_taken_as_they_are)
{
    const float values[4] = {0.1f, 0.2f, 0.65f, 0.05f};
    struct pen_tensor t = {.name = "y", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 4}, .data = values, .bytes = 16};
    struct label top[4];
    cr_assert_eq(labels_of(&t, &names, 3, 4, top), 3);
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
    cr_assert_eq(labels_of(&t, &names, 2, 4, top), 2);
    cr_assert_str_eq(top[0].text, "b");
    cr_assert_float_eq(top[0].score, 1.0 / (1.0 + exp(-1.0)), 1e-6);
    cr_assert_eq(labels_of(&t, &three, 2, 4, top), 0, "another number of classes");
}

Test(labels, bytes_are_a_quantised_softmax)
{
    const uint8_t unsigned_values[4] = {0, 64, 255, 0};
    const int8_t signed_values[4] = {-128, -64, 127, -128};
    struct pen_tensor t = {
        .name = "y", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {1, 4}, .data = unsigned_values, .bytes = 4};
    for (int i = 0; i < 2; i++) {
        struct label top[4];
        cr_assert_eq(labels_of(&t, &names, 2, 4, top), 2);
        cr_assert_str_eq(top[0].text, "c");
        cr_assert_float_eq(top[0].score, 255.0 / 256, 1e-9);
        cr_assert_float_eq(top[1].score, 0.25, 1e-9);
        t.dtype = PEN_DTYPE_I8;
        t.data = signed_values;
    }
}

Test(labels, rows_of_a_batch_each_have_theirs)
{
    const float values[8] = {0.1f, 0.2f, 0.65f, 0.05f, 0.9f, 0.05f, 0.03f, 0.02f};
    struct pen_tensor t = {.name = "y", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {2, 4}, .data = values, .bytes = 32};
    struct label top[8];
    char text[LABEL_TEXT_BYTES];
    cr_assert_eq(labels_of(&t, &names, 2, 8, top), 4);
    cr_assert(top[0].row == 0 && top[0].index == 2 && top[2].row == 1 && top[2].index == 0);
    cr_assert_str_eq(label_text(top, 4, 2, text), "row 1: a");
    cr_assert_str_eq(label_text(top, 2, 0, text), "c", "of one row its number says nothing");
    cr_assert_eq(labels_of(&t, &names, 2, 3, top), 3, "room is a limit");
}

Test(labels, without_names_classes_are_numbers)
{
    const float values[4] = {0.1f, 0.2f, 0.65f, 0.05f};
    struct pen_tensor t = {
        .name = "y", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 1, 1, 4}, .data = values, .bytes = 16};
    struct label top[4];
    char text[LABEL_TEXT_BYTES];
    cr_assert_eq(labels_of(&t, &nothing, 2, 4, top), 0, "not asked for");
    cr_assert_eq(labels_of(&t, &numbers, 2, 4, top), 2);
    cr_assert_str_eq(label_text(top, 2, 0, text), "class 2");
    t.dims[1] = t.dims[3] = 2;
    cr_assert_eq(labels_of(&t, &numbers, 2, 4, top), 0, "a map is no list of classes");
}
