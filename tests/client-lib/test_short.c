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

static const struct pen_signature map_inputs[] = {
    {"x.keys", PEN_DTYPE_STRING, 2, {-1, -1}, true, false, false},
    {"x.values", PEN_DTYPE_F32, 2, {-1, -1}, true, false, false},
    {"n.keys", PEN_DTYPE_I64, 2, {-1, -1}, true, false, false},
    {"n.values", PEN_DTYPE_I64, 2, {-1, -1}, true, false, false},
};
static const struct pen_model map_model = {.name = "m", .inputs = map_inputs, .inputs_count = 4, .preprocess = ""};

Test(brief, a_map_becomes_its_keys_and_its_values)
{
    static const float numbers[] = {1.5f, -2};
    static const int64_t keys[] = {INT64_C(1) << 40, -3, 0}, values[] = {7, 0, -1};
    struct pen_tensor t[2];
    struct pen_error error = {0};
    const struct pen_map_entry texts[] = {{.key = "a", .value = 1.5}, {.key = "", .value = -2}},
                               ints[] = {{.key_number = INT64_C(1) << 40, .value = 7},
                                         {.key_number = -3},
                                         {.key_number = 0, .value = -1}};
    cr_expect(pen_model_has_map(&map_model, "x") && !pen_model_has_map(&map_model, "x.keys"));
    cr_assert_eq(pen_model_map(&map_model, "x", texts, 2, t, &error), PEN_OK, "%s", error.text);
    cr_expect(strcmp(t[0].name, "x.keys") == 0 && t[0].bytes == 9 && memcmp(t[0].data, "\1\0\0\0a\0\0\0", 9) == 0);
    cr_expect(strcmp(t[1].name, "x.values") == 0 && t[1].bytes == 8 && memcmp(t[1].data, numbers, 8) == 0);
    for (int i = 0; i < 2; i++)
        cr_expect(t[i].rank == 2 && t[i].dims[0] == 1 && t[i].dims[1] == 2 && pen_tensor_check(&t[i], NULL) == PEN_OK);
    pen_map_free(t);
    cr_assert_eq(pen_model_map(&map_model, "n", ints, 3, t, &error), PEN_OK, "%s", error.text);
    cr_expect(memcmp(t[0].data, keys, sizeof keys) == 0 && memcmp(t[1].data, values, sizeof values) == 0);
    pen_map_free(t);
    pen_map_free(t);
    cr_assert_eq(pen_model_map(&map_model, "x", NULL, 0, t, &error), PEN_OK, "no entries: %s", error.text);
    cr_expect(t[0].bytes == 0 && t[1].bytes == 0 && t[0].dims[1] == 0);
    pen_map_free(t);
}

Test(brief, a_map_of_another_kind_is_refused_with_a_sentence)
{
    struct pen_tensor t[2];
    struct pen_error error = {0};
    const struct pen_map_entry twice[] = {{.key = "a"}, {.key = "b"}, {.key = "a"}}, number[] = {{.key_number = 4}},
                               text[] = {{.key = "a", .text = "b"}}, half[] = {{.key_number = 1, .value = 0.5}},
                               same[] = {{.key_number = 5}, {.key_number = 5}};
    cr_expect_eq(pen_model_map(&map_model, "y", twice, 2, t, &error), PEN_ERR_NOT_FOUND);
    cr_expect(strstr(error.text, "\"y\""), "%s", error.text);
    cr_expect_eq(pen_model_map(&map_model, "x", twice, 3, t, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "\"a\" twice"), "%s", error.text);
    cr_expect_eq(pen_model_map(&map_model, "n", same, 2, t, &error), PEN_ERR_INVALID);
    cr_expect_eq(pen_model_map(&map_model, "x", number, 1, t, &error), PEN_ERR_DTYPE);
    cr_expect_eq(pen_model_map(&map_model, "x", text, 1, t, &error), PEN_ERR_DTYPE);
    cr_expect_eq(pen_model_map(&map_model, "n", half, 1, t, &error), PEN_ERR_DTYPE, "half is no integer");
    cr_expect_eq(pen_model_map(&map_model, "n", twice, 1, t, &error), PEN_ERR_DTYPE);
    cr_expect_eq(pen_model_map(&map_model, "x", twice, 1000001, t, &error), PEN_ERR_TOO_LARGE);
}
