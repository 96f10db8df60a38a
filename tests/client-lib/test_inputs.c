#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inputs.h"
#include "npy.h"
#include "request.h"

static const struct pen_signature signatures[2] = {
    {.name = "image", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {-1, 2, 2, 1}, .batched = true},
    {.name = "state", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 3}}};

static const struct pen_model model = {
    .name = "m", .version = 1, .platform = "onnx", .preprocess = "", .inputs_count = 2, .inputs = signatures};

static void file_of(char path[64], const char *name, const void *bytes, size_t size)
{
    snprintf(path, 64, "/tmp/penstock-%d-%s", (int)getpid(), name);
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size);
    fclose(f);
}

Test(inputs, raw_files_fill_the_dynamic_dimension)
{
    char path[64];
    struct inputs in = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    file_of(path, "raw.bin", "abcdefgh1234", 12);
    cr_assert_eq(inputs_add_file(&in, &model, NULL, path, &error), PEN_OK, "%s", error.text);
    cr_assert_str_eq(in.tensors[0].name, "image");
    cr_assert_eq(in.tensors[0].dims[0], 3);
    cr_assert_eq(inputs_add_file(&in, &model, "state", path, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(in.count, 2);
    cr_assert_eq(inputs_add_file(&in, &model, "other", path, &error), PEN_ERR_NOT_FOUND);
    file_of(path, "raw.bin", "abcdefg", 7);
    cr_assert_eq(inputs_add_file(&in, &model, "image", path, &error), PEN_ERR_SHAPE);
    cr_assert_eq(inputs_add_file(&in, &model, "state", path, &error), PEN_ERR_SHAPE);
    remove(path);
    cr_assert_eq(inputs_add_file(&in, &model, "image", path, &error), PEN_ERR_NOT_FOUND);
    cr_assert_eq(inputs_add_file(&in, &model, "image", "/tmp", &error), PEN_ERR_IO);
    inputs_fini(&in);
}

Test(inputs, lists_are_name_equals_file)
{
    char path[64], item[100];
    struct inputs in = {.count = 0};
    file_of(path, "state.bin", "abcdefgh1234", 12);
    snprintf(item, sizeof item, "state=%s", path);
    struct setting_list list = {.items = {item}, .count = 1};
    cr_assert_eq(inputs_add_list(&in, &model, &list, NULL), PEN_OK);
    cr_assert_str_eq(in.tensors[0].name, "state");
    list.items[0] = "state";
    cr_assert_eq(inputs_add_list(&in, &model, &list, NULL), PEN_ERR_INVALID);
    inputs_fini(&in);
    remove(path);
}

Test(inputs, a_json_object_is_a_map)
{
    static const struct pen_signature halves[] = {
        {.name = "x.keys", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {-1, -1}},
        {.name = "x.values", .dtype = PEN_DTYPE_STRING, .rank = 2, .dims = {-1, -1}}};
    static const struct pen_model maps = {.name = "m", .preprocess = "", .inputs_count = 2, .inputs = halves};
    static const char *const wrong[] = {
        "x={\"1.5\": \"a\"}", "x={\"1\": 2}", "x={\"1\": null}", "x={\"1\": \"a\"", "x={\"1\": \"a\", \"1\": \"b\"}",
        "x=/nowhere"};
    static const int64_t keys[] = {-7, 3};
    char path[64], item[100];
    struct inputs in = {.count = 0};
    struct pen_error error = {0};
    file_of(path, "map.json", "{\"-7\": \"ab\", \"3\": \"\"}", 22);
    snprintf(item, sizeof item, "x=%s", path);
    struct setting_list list = {.items = {item}, .count = 1};
    cr_assert_eq(inputs_add_list(&in, &maps, &list, &error), PEN_OK, "%s", error.text);
    cr_assert(in.count == 2 && in.tensors[0].bytes == sizeof keys &&
              memcmp(in.tensors[0].data, keys, sizeof keys) == 0);
    cr_expect(in.tensors[1].bytes == 10 && memcmp(in.tensors[1].data, "\2\0\0\0ab\0\0\0", 10) == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(item, sizeof item, "%s", wrong[i]);
        cr_expect_neq(inputs_add_list(&in, &maps, &list, &error), PEN_OK, "%s", wrong[i]);
        cr_expect(error.text[0] != 0);
    }
    inputs_fini(&in);
    remove(path);
}

Test(inputs, missing_ones_are_made_up_and_varied)
{
    struct inputs in = {.count = 0};
    cr_assert_eq(inputs_generate(&in, &model, NULL), PEN_OK);
    cr_assert_eq(in.count, 2);
    cr_assert_eq(in.tensors[0].dims[0], 1);
    cr_assert_eq(pen_tensor_check(&in.tensors[0], NULL), PEN_OK);
    cr_assert_eq(pen_tensor_check(&in.tensors[1], NULL), PEN_OK);
    unsigned char before[4];
    memcpy(before, in.tensors[0].data, 4);
    inputs_vary(&in, 123456789);
    cr_assert_neq(memcmp(before, in.tensors[0].data, 4), 0);
    inputs_fini(&in);
}

Test(request, parameters_take_the_type_they_look_like)
{
    struct request r;
    struct request_settings s = {.backend = "",
                                 .precision = "f32",
                                 .deadline_us = 5,
                                 .priority = 3,
                                 .no_cache = true,
                                 .parameters = {.items = {"a=1", "b=1.5", "c=true", "d=x=y"}, .count = 4}};
    cr_assert_eq(request_make(&s, &r, NULL), PEN_OK);
    cr_assert(r.parameters[0].kind == PEN_PARAMETER_INTEGER && r.parameters[0].value.integer == 1);
    cr_assert(r.parameters[1].kind == PEN_PARAMETER_NUMBER);
    cr_assert(r.parameters[2].kind == PEN_PARAMETER_FLAG && r.parameters[2].value.flag);
    cr_assert_str_eq(r.parameters[3].value.text, "x=y");
    cr_assert_eq(r.options.precision, PEN_PRECISION_F32);
    cr_assert_eq(r.options.flags, PEN_JOB_NO_CACHE);
    cr_assert_eq(r.options.deadline_us, 5);
    cr_assert_eq(r.options.priority, 3);
    cr_assert_null(r.options.backend);
    s.parameters = (struct setting_list){.items = {"=1"}, .count = 1};
    cr_assert_eq(request_make(&s, &r, NULL), PEN_ERR_INVALID);
}
