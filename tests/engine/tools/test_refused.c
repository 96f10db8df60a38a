/* What penstock-engine info says of models that cannot run: operators with their nodes, what avoids them, exit code 4, and a text to report. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "../import-tf/flat_writer.h"
#include "onnx_writer.h"

TestSuite(refused, .init = fixture_setup, .fini = fixture_teardown);

/* x -> Relu -> Blur -> Blur -> y, of two unknown nodes. */
static const char *onnx_unknown(void)
{
    static const int64_t dims[] = {1, 4};
    const char *path = path_of("model.onnx");
    struct onnx_writer *w = onnx_writer_new("g");
    onnx_writer_input(w, "x", 1, 2, dims, NULL);
    onnx_writer_node(w, "Relu", ONNX_LIST("x"), ONNX_LIST("secret_a"), NULL);
    onnx_writer_node(w, "Blur", ONNX_LIST("secret_a"), ONNX_LIST("secret_b"), NULL);
    onnx_writer_node(w, "Blur", ONNX_LIST("secret_b"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", 1, 2, dims, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    return path;
}

static size_t lite_tensor(struct flat *f, const char *name)
{
    static const int32_t dims[] = {1, 4};
    size_t t = flat_table(f, 8);
    flat_ref(f, t, 0, flat_vector(f, dims, 2, 4));
    flat_ref(f, t, 3, flat_vector(f, name, (uint32_t)strlen(name), 1));
    return t;
}

/* in -> custom FlexErf -> out */
static const char *lite_unknown(void)
{
    static struct flat f;
    static const int32_t zero = 0, one = 1;
    const char *path = path_of("model.tflite"), *custom = "FlexErf";
    flat_init(&f);
    size_t model = flat_table(&f, 5);
    flat_root(&f, model);
    flat_int(&f, model, 0, 3);
    size_t codes = flat_tables(&f, 1), code = flat_table(&f, 4), subs = flat_tables(&f, 1), sub = flat_table(&f, 5);
    flat_ref(&f, model, 1, codes);
    flat_tables_set(&f, codes, 0, code);
    flat_int(&f, code, 3, 32);
    flat_ref(&f, code, 1, flat_vector(&f, custom, (uint32_t)strlen(custom), 1));
    flat_ref(&f, model, 2, subs);
    flat_tables_set(&f, subs, 0, sub);
    size_t tensors = flat_tables(&f, 2);
    flat_ref(&f, sub, 0, tensors);
    flat_tables_set(&f, tensors, 0, lite_tensor(&f, "in"));
    flat_tables_set(&f, tensors, 1, lite_tensor(&f, "out"));
    flat_ref(&f, sub, 1, flat_vector(&f, &zero, 1, 4));
    flat_ref(&f, sub, 2, flat_vector(&f, &one, 1, 4));
    size_t operators = flat_tables(&f, 1), op = flat_table(&f, 6), buffers = flat_tables(&f, 1);
    flat_ref(&f, sub, 3, operators);
    flat_tables_set(&f, operators, 0, op);
    flat_ref(&f, op, 1, flat_vector(&f, &zero, 1, 4));
    flat_ref(&f, op, 2, flat_vector(&f, &one, 1, 4));
    flat_ref(&f, model, 4, buffers);
    flat_tables_set(&f, buffers, 0, flat_table(&f, 1));
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(f.bytes, 1, f.size, file) == f.size && fclose(file) == 0);
    return path;
}

Test(refused, each_missing_operator_has_its_nodes_and_what_avoids_it)
{
    struct printed p = engine(ARGS("info", onnx_unknown()));
    cr_expect_eq(p.status, 4, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "missing operator Blur\n    2 nodes: "), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "avoided by: not an operator of ONNX"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "no other precision"), "%s", p.out);
    cr_expect_null(strstr(p.out, "missing operator Relu"), "%s", p.out);
}

Test(refused, a_tensorflow_operator_in_a_tflite_model_names_the_converter_option)
{
    struct printed p = engine(ARGS("info", lite_unknown()));
    cr_expect_eq(p.status, 4, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "missing operator custom FlexErf\n    1 node: out\n"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "TFLITE_BUILTINS"), "%s", p.out);
}

/* x -> Relu -> RaggedRange -> Bucketize -> RaggedRange, of TensorFlow's and of no runtime's operators. */
static const char *tfjs_unknown(void)
{
    text_write("model.json", "{\"format\":\"graph-model\",\"modelTopology\":{\"node\":["
                             "{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"},"
                             "\"shape\":{\"shape\":{\"dim\":[{\"size\":\"4\"}]}}}},"
                             "{\"name\":\"a\",\"op\":\"Relu\",\"input\":[\"x\"],\"attr\":{}},"
                             "{\"name\":\"b\",\"op\":\"RaggedRange\",\"input\":[\"a\"],\"attr\":{}},"
                             "{\"name\":\"c\",\"op\":\"Bucketize\",\"input\":[\"b:1\"],\"attr\":{}},"
                             "{\"name\":\"d\",\"op\":\"RaggedRange\",\"input\":[\"c\"],\"attr\":{}}]},"
                             "\"weightsManifest\":[{\"paths\":[],\"weights\":[]}]}");
    return path_of("model.json");
}

Test(refused, each_missing_operator_of_a_tensorflow_js_model_has_its_nodes)
{
    struct printed p = engine(ARGS("info", tfjs_unknown()));
    cr_expect_eq(p.status, 4, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "missing operator RaggedRange\n    2 nodes: b, d\n"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "missing operator Bucketize\n    1 node: c\n"), "%s", p.out);
    cr_expect_null(strstr(p.out, "missing operator Relu"), "%s", p.out);
}

Test(refused, json_has_operators_nodes_and_advice)
{
    struct printed p = engine(ARGS("info", "--json", onnx_unknown()));
    cr_assert_eq(p.status, 4);
    cJSON *json = cJSON_Parse(p.out);
    const cJSON *model = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "models"), 0);
    expect_keys(model, ARGS("model", "format", "error", "missing"));
    const cJSON *missing = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "missing"), 0);
    expect_keys(missing, ARGS("operator", "nodes", "advice"));
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(missing, "nodes")), 2);
    cJSON_Delete(json);
}

Test(refused, an_issue_has_operators_and_versions_and_no_names_of_nodes)
{
    struct printed p = engine(ARGS("info", "--issue", onnx_unknown()));
    cr_expect_eq(p.status, 4, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "format: onnx, IR "), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "opset 17\n"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "\n- Blur 2\n"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "\n  Relu 1\n"), "%s", p.out);
    cr_expect_null(strstr(p.out, "secret"), "%s", p.out);
}

Test(refused, an_issue_of_a_model_that_runs_says_where)
{
    onnx_case("case", &relu);
    struct printed p = engine(ARGS("info", "--issue", "--backend", "reference", path_of("case/model.onnx")));
    cr_expect_eq(p.status, 0, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "runs: reference 1/1 nodes"), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "\n  Relu 1\n"), "%s", p.out);
}

Test(refused, a_name_that_is_no_text_is_printed_as_text)
{
    struct onnx_writer *w = onnx_writer_new("g");
    static const int64_t dims[] = {1};
    onnx_writer_input(w, "x", 1, 1, dims, NULL);
    onnx_writer_node(w, "Bl\xff\nr\xc3\xa9", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", 1, 1, dims, NULL);
    onnx_writer_save(w, 17, path_of("model.onnx"));
    onnx_writer_free(w);
    struct printed p = engine(ARGS("info", path_of("model.onnx")));
    cr_expect_eq(p.status, 4, "%d %s", p.status, p.err);
    cr_expect_not_null(strstr(p.out, "missing operator Bl??r\xc3\xa9\n"), "%s", p.out);
}

Test(refused, a_broken_file_is_a_failure_and_no_missing_operator)
{
    text_write("model.onnx", "not a model");
    struct printed p = engine(ARGS("info", path_of("model.onnx")));
    cr_expect_eq(p.status, 1, "%d %s", p.status, p.err);
    cr_expect_str_empty(p.out);
}
