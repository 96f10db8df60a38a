/* --explain, --debug and bench --modes, as a person and as a program reads them. */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"
#define THREE  "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png"

TestSuite(choices, .init = fixture_setup, .fini = fixture_teardown);

static const cJSON *row_of(const cJSON *list, const char *about, const char *subject)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, list)
    {
        if (strcmp(cJSON_GetObjectItem(row, "about")->valuestring, about) == 0 &&
            strstr(cJSON_GetObjectItem(row, "subject")->valuestring, subject) != NULL)
            return row;
    }
    cr_assert_fail("no row of %s about %s", about, subject);
    return NULL;
}

static const char *choice_of(const cJSON *list, const char *about, const char *subject)
{
    return cJSON_GetObjectItem(row_of(list, about, subject), "choice")->valuestring;
}

Test(choices, info_explains_a_model_and_a_left_out_pass)
{
    struct printed p = engine(ARGS("info", DIGITS, "--backend", "xnnpack", "--explain", "--json"));
    cJSON *json = json_of(&p);
    const cJSON *list = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "models"), 0), "explain");
    cr_expect_str_eq(choice_of(list, "backend", "xnnpack"), "chosen");
    cr_expect_str_eq(choice_of(list, "placement", "(Softmax)"), "xnnpack");
    cr_expect_str_eq(choice_of(list, "pass", "activation"), "fired");
    cr_expect_str_eq(choice_of(list, "threads", "each session"), "1");
    cr_expect_str_eq(choice_of(list, "precision", "the model"), "f32");
    cr_expect(strncmp(choice_of(list, "kernel", "(Conv)"), "xnnpack: own gemm over patches", 30) == 0);
    cr_expect_not_null(strstr(choice_of(list, "bucket", "the session"), "1x8x8"));
    cJSON_Delete(json);
    p = engine(ARGS("info", DIGITS, "--backend", "xnnpack", "--explain", "--json", "--skip-passes", "activation,pad",
                    "--batch", "3", "--threads", "2"));
    json = json_of(&p);
    list = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "models"), 0), "explain");
    cr_expect_str_eq(choice_of(list, "pass", "activation"), "left out");
    cr_expect_str_eq(choice_of(list, "placement", "(Relu)"), "xnnpack", "the pass ran all the same");
    cr_expect_str_eq(choice_of(list, "threads", "each session"), "2");
    cr_expect_not_null(strstr(choice_of(list, "bucket", "the session"), "3x1x8x8"));
    cJSON_Delete(json);
    p = engine(ARGS("info", DIGITS, "--skip-passes", "magic"));
    cr_assert(p.status == 2 && strstr(p.err, "'magic'") && strstr(p.err, "batch_norm"), "%s", p.err);
}

Test(choices, info_lists_the_options_of_a_backend)
{
    struct printed p = engine(ARGS("info", "--backend", "xnnpack"));
    cr_expect_not_null(strstr(p.out, "option xnnpack.joins (off|on, on): "), "%s", p.out);
    cr_expect_not_null(strstr(p.out, "option xnnpack.measure_ms (1 to 60000, 60): "), "%s", p.out);
    p = engine(ARGS("info", "--backend", "xnnpack", "--json", "--backend-options", "xnnpack.joins=off"));
    cJSON *json = json_of(&p), *backend = NULL;
    cJSON_ArrayForEach(backend, cJSON_GetObjectItem(json, "backends"))
    {
        const bool has = strcmp(cJSON_GetObjectItem(backend, "name")->valuestring, "xnnpack") == 0;
        cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(backend, "options")) > 0, has);
    }
    cJSON_Delete(json);
    p = engine(ARGS("info", "--backend-options", "xnnpack.magic=1"));
    cr_expect(p.status == 2 && strstr(p.err, "'xnnpack.magic'") && strstr(p.err, "xnnpack.tiles"), "%s", p.err);
}

Test(choices, run_explains_as_text_and_only_when_asked)
{
    struct printed p = engine(ARGS("run", "--model", DIGITS, "--input", THREE, "--output-dir", folder, "--backend",
                                   "reference", "--explain"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect(strstr(p.out, "\ngraph passes:\n") && strstr(p.out, "\nkernel of each node:\n"), "%s", p.out);
    cr_expect(strstr(p.out, "it was asked for by name, in f32") && strstr(p.out, "reference: plain C"), "%s", p.out);
    p = engine(ARGS("run", "--model", DIGITS, "--input", THREE, "--output-dir", folder));
    cr_expect_null(strstr(p.out, "graph passes"), "%s", p.out);
}

Test(choices, run_debug_has_a_line_per_node_and_the_firsts)
{
    struct printed p = engine(
        ARGS("run", "--model", DIGITS, "--input", THREE, "--output-dir", folder, "--backend", "xnnpack", "--debug"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect(strstr(p.out, "(Softmax) on xnnpack [own loop, ") && strstr(p.out, " from the reference\n"), "%s", p.out);
    cr_expect(strstr(p.out, "no NaN and no infinity\n") && strstr(p.out, "compared nodes is beyond"), "%s", p.out);
    p = engine(ARGS("run", "--model", DIGITS, "--input", THREE, "--output-dir", folder, "--backend", "xnnpack",
                    "--debug", "--json"));
    cJSON *json = json_of(&p);
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "debug"), 0);
    expect_keys(row, ARGS("node", "op", "backend", "kernel", "shapes", "bytes", "us", "nan", "infinite", "beyond_f16",
                          "compared", "note", "largest_deviation"));
    cJSON_Delete(json);
}

Test(choices, bench_prints_what_prod_gains)
{
    struct printed p = engine(ARGS("bench", "--model", DIGITS, "--modes", "--runs", "12", "--json"));
    cJSON *json = json_of(&p);
    expect_keys(json, ARGS("model", "backend", "pairs", "load", "run"));
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "pairs")), 12);
    expect_keys(cJSON_GetObjectItem(json, "run"), ARGS("default_ms", "prod_ms", "ratio", "p10", "p90"));
    cr_assert_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "run"), "ratio")), 0.0);
    cJSON_Delete(json);
    p = engine(ARGS("bench", "--model", DIGITS, "--modes", "--runs", "12"));
    cr_expect(strstr(p.out, "\nrun   default ") && strstr(p.out, " times as fast ("), "%s", p.out);
}
