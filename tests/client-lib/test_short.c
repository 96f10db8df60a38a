/* penstock/short.h without a pool: tensors over arrays, pictures for a model's signature. */
#include <criterion/criterion.h>
#include <string.h>

#include "penstock/client.h"

#define SAMPLE PENSTOCK_SOURCE "/deploy/models/digits/samples/01_one.png"

Test(brief, an_array_becomes_a_tensor_without_a_copy)
{
    static const float numbers[6] = {0};
    struct pen_tensor t = {0};
    struct pen_error error = {0};
    cr_assert_eq(pen_tensor_from_array("x", PEN_DTYPE_F32, (int64_t[]){2, 3}, 2, numbers, &t, &error), PEN_OK);
    cr_expect(t.data == numbers && t.bytes == sizeof numbers && t.rank == 2 && t.dims[1] == 3);
    cr_assert_eq(pen_tensor_from_array("s", PEN_DTYPE_F64, NULL, 0, numbers, &t, &error), PEN_OK, "a scalar");
    cr_expect_eq(t.bytes, 8);
    cr_assert_eq(pen_tensor_from_array("h", PEN_DTYPE_I4, (int64_t[]){3}, 1, numbers, &t, &error), PEN_OK);
    cr_expect_eq(t.bytes, 2, "two elements a byte");
}

Test(brief, an_array_that_cannot_be_a_tensor_is_refused_with_a_sentence)
{
    struct pen_tensor t = {0};
    struct pen_error error = {0};
    const int64_t wide[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, flat[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    cr_expect_eq(pen_tensor_from_array("x", PEN_DTYPE_F32, (int64_t[]){-1}, 1, "", &t, &error), PEN_ERR_SHAPE);
    cr_expect(strstr(error.text, "\"x\""), "%s", error.text);
    cr_expect_eq(pen_tensor_from_array("x", PEN_DTYPE_F32, wide, 2, "", &t, &error), PEN_ERR_TOO_LARGE);
    cr_expect_eq(pen_tensor_from_array("x", PEN_DTYPE_F32, flat, 9, "", &t, &error), PEN_ERR_SHAPE);
    cr_expect_eq(pen_tensor_from_array("x", PEN_DTYPE_STRING, flat, 1, "", &t, &error), PEN_ERR_DTYPE);
    cr_expect(!t.name, "nothing was written");
}

Test(brief, a_picture_becomes_what_the_model_takes)
{
    const struct pen_signature inputs[] = {{"other", PEN_DTYPE_F32, 1, {4}, false, false, false},
                                           {"pixels", PEN_DTYPE_U8, 4, {-1, 6, 5, 3}, true, false, false}};
    struct pen_model model = {
        .name = "m", .inputs = inputs, .inputs_count = 2, .preprocess = "{\"input\": \"pixels\"}"};
    struct pen_tensor t = {0};
    struct pen_error error = {0};
    cr_assert_eq(pen_model_picture(&model, SAMPLE, &t, &error), PEN_OK, "%s", error.text);
    cr_expect(strcmp(t.name, "pixels") == 0 && t.dtype == PEN_DTYPE_U8 && t.rank == 4 && t.bytes == 6 * 5 * 3);
    cr_expect(t.dims[0] == 1 && t.dims[1] == 6 && t.dims[2] == 5 && t.dims[3] == 3);
    pen_picture_free(&t);
    cr_expect(!t.data && t.bytes == 0);
    pen_picture_free(&t);
    model.preprocess = "";
    cr_expect_eq(pen_model_picture(&model, SAMPLE, &t, &error), PEN_ERR_INVALID, "the first input takes no pictures");
    cr_expect(strstr(error.text, "does not take pictures"), "%s", error.text);
    model.preprocess = "{\"input\": \"pixels\"}";
    cr_expect_eq(pen_model_picture(&model, "/nowhere.png", &t, &error), PEN_ERR_NOT_FOUND);
    cr_expect_eq(pen_model_picture(&model, PENSTOCK_SOURCE "/README.md", &t, &error), PEN_ERR_INVALID);
}

Test(brief, a_picture_for_a_quantised_input_lies_around_zero)
{
    const struct pen_signature inputs[] = {{"q", PEN_DTYPE_I8, 4, {1, 8, 8, 1}, true, false, false},
                                           {"u", PEN_DTYPE_U8, 4, {1, 8, 8, 1}, true, false, false}};
    struct pen_model model = {.name = "m", .inputs = inputs, .inputs_count = 1, .preprocess = ""};
    struct pen_tensor q = {0}, u = {0};
    struct pen_error error = {0};
    cr_assert_eq(pen_model_picture(&model, SAMPLE, &q, &error), PEN_OK, "%s", error.text);
    model.inputs = inputs + 1;
    cr_assert_eq(pen_model_picture(&model, SAMPLE, &u, &error), PEN_OK, "%s", error.text);
    cr_assert(q.dtype == PEN_DTYPE_I8 && q.bytes == u.bytes);
    for (size_t i = 0; i < q.bytes; i++) {
        cr_assert_eq(((const int8_t *)q.data)[i], ((const uint8_t *)u.data)[i] - 128);
    }
    pen_picture_free(&q);
    pen_picture_free(&u);
}
