/* What penstock-engine says of a model and of this host is so: signature, precision, times, what stays in 16-bit floats. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "onnx_file.h"

TestSuite(told, .init = fixture_setup, .fini = fixture_teardown);

#define F32 1
#define U8  2
#define F16 10

/* x -> op -> y, of one dtype over [N, 4]. */
static const char *unary_model(const char *op, int32_t dtype)
{
    const char *path = path_of("model.onnx");
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = dtype, .dims = {-1, 4}, .rank = 2},
                            out = {.name = "y", .dtype = dtype, .dims = {-1, 4}, .rank = 2};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
    return path;
}

static cJSON *info_of(const char *path)
{
    struct printed p = engine(ARGS("info", "--json", "--backend", "reference", path));
    cJSON *json = json_of(&p), *model = cJSON_DetachItemFromArray(cJSON_GetObjectItem(json, "models"), 0);
    cr_assert_not_null(model, "%s %s", p.out, p.err);
    cJSON_Delete(json);
    return model;
}

static const char *text(const cJSON *object, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return value != NULL ? value : "(none)";
}

Test(told, info_prints_inputs_and_outputs_with_open_dimensions)
{
    const char *path = unary_model("Relu", F32);
    struct printed p = engine(ARGS("info", "--backend", "reference", path));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect_not_null(strstr(p.out, "  input\tx\tf32\tN x 4\n"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "  output\ty\tf32\t? x 4\n"), "%s", p.out);
    cJSON *model = info_of(path);
    const cJSON *in = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "inputs"), 0),
                *out = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "outputs"), 0),
                *shape = cJSON_GetObjectItem(in, "shape");
    cr_expect_str_eq(text(in, "name"), "x");
    cr_expect_str_eq(text(in, "type"), "f32");
    cr_expect_str_eq(text(in, "dims"), "N x 4");
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0)), -1);
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 1)), 4);
    cr_expect_str_eq(text(out, "name"), "y");
    cJSON_Delete(model);
}

Test(told, a_model_of_integers_is_not_called_f32)
{
    cJSON *bytes = info_of(unary_model("Identity", U8)), *floats = info_of(unary_model("Relu", F32));
    cr_expect_str_eq(text(bytes, "precision"), "int8");
    cr_expect_str_eq(text(floats, "precision"), "f32");
    cJSON_Delete(bytes);
    cJSON_Delete(floats);
    struct printed p = engine(ARGS("bench", "--json", "--runs", "2", "--model", unary_model("Identity", U8)));
    cJSON *json = json_of(&p);
    cr_expect_str_eq(text(json, "precision"), "int8");
    cJSON_Delete(json);
}

/* 65 outputs were once too many to be widened, without a word. */
Test(told, many_outputs_are_no_reason_to_stay_in_16_bits)
{
    enum { OUTPUTS = 65 };
    static char names[OUTPUTS][8];
    static struct onnx_node nodes[OUTPUTS];
    static struct onnx_value outs[OUTPUTS];
    const struct onnx_value in = {.name = "x", .dtype = F16, .dims = {1, 4}, .rank = 2};
    for (int i = 0; i < OUTPUTS; i++) {
        snprintf(names[i], sizeof names[i], "y%d", i);
        nodes[i] = (struct onnx_node){.op = "Sigmoid", .inputs = {"x"}, .outputs = {names[i]}};
        outs[i] = (struct onnx_value){.name = names[i], .dtype = F16, .dims = {1, 4}, .rank = 2};
    }
    const char *path = path_of("many.onnx");
    onnx_write(path, &(struct onnx_model){.nodes = nodes,
                                          .nodes_count = OUTPUTS,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = outs,
                                          .outputs_count = OUTPUTS});
    struct printed p = engine(ARGS("info", "--backend", "xnnpack", path));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect_null(strstr(p.out, "16-bit"), "%s", p.out);
    cr_expect_null(strstr(p.out, "reference"), "%s", p.out);
}

Test(told, random_operators_are_no_reason_either)
{
    const char *path = unary_model("RandomNormalLike", F16);
    struct printed p = engine(ARGS("bench", "--runs", "2", "--model", path));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect_null(strstr(p.out, "16-bit"), "%s", p.out);
}

Test(told, what_stays_in_16_bits_is_named_with_the_reason)
{
    const struct onnx_node nodes[] = {{.op = "Relu", .inputs = {"x"}, .outputs = {"r"}},
                                      {.op = "QuantizeLinear", .inputs = {"r", "s"}, .outputs = {"y"}}};
    const struct onnx_value in[] = {{.name = "x", .dtype = F16, .dims = {1, 4}, .rank = 2},
                                    {.name = "s", .dtype = F16, .rank = 0}},
                            out = {.name = "y", .dtype = U8, .dims = {1, 4}, .rank = 2};
    const char *path = path_of("half.onnx");
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 2, .inputs = in, .inputs_count = 2, .outputs = &out, .outputs_count = 1});
    struct printed p = engine(ARGS("info", path));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect_not_null(strstr(p.out, "16-bit floats stay as they are"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "QuantizeLinear"), "%s", p.out);
    p = engine(ARGS("info", unary_model("Relu", F16)));
    cr_expect_null(strstr(p.out, "16-bit"), "%s", p.out);
}

/* The clock counts nanoseconds, and what takes less than a microsecond is not zero. */
Test(told, times_below_a_microsecond_are_not_zero)
{
    const char *path = unary_model("Relu", F32);
    struct printed p = engine(ARGS("bench", "--json", "--runs", "200", "--model", path));
    cJSON *json = json_of(&p);
    double median = cJSON_GetNumberValue(cJSON_GetObjectItem(json, "median_ms"));
    cr_expect_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "min_ms")), 0);
    cr_expect_gt(median, 0);
    cr_expect_lt(median, 1);
    cJSON_Delete(json);
    p = engine(ARGS("bench", "--runs", "200", "--model", path));
    cr_expect_null(strstr(p.out, " 0.000 ms"), "%s", p.out);
    cr_expect_null(strstr(p.out, "min 0"), "%s", p.out);
    const char *line = strstr(p.out, "median ");
    cr_assert_not_null(line, "%s", p.out);
    cr_expect(strstr(line, " ns") != NULL || strstr(line, " us") != NULL, "%s", p.out);
}

Test(told, a_precision_that_no_backend_here_has_is_answered_with_the_list)
{
    struct printed p = engine(ARGS("info", "--precision", "f16_math"));
    cr_expect_eq(p.status, 3, "%s", p.out);
    cr_expect_not_null(strstr(p.err, "f16_math"), "%s", p.err);
    cr_expect_not_null(strstr(p.err, "there is: f32 ("), "%s", p.err);
    p = engine(ARGS("info", "--precision", "f17"));
    cr_expect_eq(p.status, 2);
    cr_expect_not_null(strstr(p.err, "no precision is called 'f17'"), "%s", p.err);
    p = engine(ARGS("info", "--precision", "bf16", "--backend", "reference"));
    cr_expect_eq(p.status, 3);
    cr_expect_not_null(strstr(p.err, "reference does not offer precision bf16 on this host; there is: f32 (reference)"),
                       "%s", p.err);
}

/* Where kernels of bytes are; a model of floats is refused with the node that is in the way. */
Test(told, int8_is_offered_and_takes_quantised_models_only)
{
    const char *bytes = unary_model("Identity", U8);
    struct printed p = engine(ARGS("info", "--precision", "int8", "--backend", "xnnpack"));
    cr_expect_eq(p.status, 0, "%s", p.err);
    p = engine(ARGS("bench", "--json", "--runs", "2", "--precision", "int8", "--model", bytes));
    cJSON *json = json_of(&p);
    cr_expect_str_eq(text(json, "precision"), "int8");
    cJSON_Delete(json);
    p = engine(ARGS("bench", "--runs", "2", "--precision", "int8", "--model", unary_model("Relu", F32)));
    cr_expect_eq(p.status, 3, "%s", p.out);
    cr_expect_not_null(strstr(p.err, "precision int8 was asked for, and the model computes in floats"), "%s", p.err);
}

/* Every precision that info lists for a backend opens on it. */
Test(told, a_precision_that_is_listed_is_there)
{
    struct printed p = engine(ARGS("info", "--json", "--vk-allow-software"));
    cJSON *json = json_of(&p), *backend = NULL, *precision = NULL;
    cJSON_ArrayForEach(backend, cJSON_GetObjectItem(json, "backends"))
    {
        cJSON_ArrayForEach(precision, cJSON_GetObjectItem(backend, "precisions"))
        {
            struct printed opened = engine(ARGS("info", "--vk-allow-software", "--backend", text(backend, "name"),
                                                "--precision", cJSON_GetStringValue(precision)));
            cr_expect_eq(opened.status, 0, "%s %s: %s", text(backend, "name"), cJSON_GetStringValue(precision),
                         opened.err);
        }
    }
    cJSON_Delete(json);
}
