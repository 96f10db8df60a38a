/* What verify says about right, wrong and refused answers in the three layouts. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

TestSuite(verify, .init = fixture_setup, .fini = fixture_teardown);

#define EXPECT_SUMS(p, status_, line)                                                                                  \
    do {                                                                                                               \
        cr_assert_str_eq(last_line(&(p)), line, "%s%s", (p).out, (p).err);                                             \
        cr_assert_eq((p).status, status_, "exit code %d", (p).status);                                                 \
    } while (0)

/* Light cases have input i / count. */
static const float ramp[4] = {0, 0.25f, 0.5f, 0.75f};
static const struct sample light = {.op = "Relu", .count = 4, .out = ramp};

Test(verify, reads_the_three_layouts)
{
    onnx_case("a/folder", &relu);
    golden_case("b", &relu);
    light_case("c_light", &light);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 0, "3 passed, 0 failed, 0 skipped");
    cr_assert_str_eq(field(&p, "a/folder", 0), "pass");
    cr_assert_str_eq(field(&p, "b/golden/case.json", 0), "pass");
    cr_assert_str_eq(field(&p, "c_light.onnx", 0), "pass");
    cr_assert_str_eq(field(&p, "a/folder", 2), "reference");
    cr_assert_str_eq(field(&p, "a/folder", 3), "0");
    cr_assert_str_eq(field(&p, "a/folder", 4), "0");
    cr_assert_str_eq(field(&p, "a/folder", 5), "-");
}

Test(verify, takes_a_single_case_of_each_layout)
{
    onnx_case("a", &relu);
    golden_case("b", &relu);
    light_case("c", &light);
    const char *paths[] = {"a", "b/golden/case.json", "c.onnx"};
    for (size_t i = 0; i < 3; i++) {
        struct printed p = engine(ARGS("verify", path_of(paths[i])));
        EXPECT_SUMS(p, 0, "1 passed, 0 failed, 0 skipped");
    }
}

Test(verify, a_flipped_byte_of_an_expected_pb_fails)
{
    onnx_case("a", &relu);
    byte_flip("a/test_data_set_0/output_0.pb", 2);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "0 passed, 1 failed, 0 skipped");
    cr_assert_not_null(strstr(field(&p, "a", 5), "element 5"), "%s", p.out);
}

Test(verify, a_flipped_byte_of_a_golden_bin_fails)
{
    golden_case("a", &relu);
    byte_flip("a/golden/out.bin", 2);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "0 passed, 1 failed, 0 skipped");
}

Test(verify, a_flipped_byte_of_a_light_output_fails)
{
    light_case("a", &light);
    byte_flip("a_output_0.pb", 1);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "0 passed, 1 failed, 0 skipped");
}

Test(verify, every_data_set_counts)
{
    onnx_case("a", &relu);
    set_write("a", 1, &relu_wrong);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "0 passed, 1 failed, 0 skipped");
    cr_assert_str_eq(field(&p, "a", 3), "1");
    cr_assert_str_eq(field(&p, "a", 4), "0.25");
}

Test(verify, not_a_number_fits_only_itself)
{
    const float in[2] = {-1, 4}, right[2] = {NAN, 2}, lost[2] = {0, 2}, found[2] = {NAN, NAN};
    onnx_case("right", &(struct sample){.op = "Sqrt", .count = 2, .in = in, .out = right});
    onnx_case("lost", &(struct sample){.op = "Sqrt", .count = 2, .in = in, .out = lost});
    onnx_case("found", &(struct sample){.op = "Sqrt", .count = 2, .in = in, .out = found});
    golden_case("golden", &(struct sample){.op = "Sqrt", .count = 2, .in = in, .out = lost});
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "1 passed, 3 failed, 0 skipped");
    cr_assert_str_eq(field(&p, "right", 0), "pass");
}

Test(verify, an_infinity_fits_only_itself)
{
    const float in[2] = {0, 1}, right[2] = {INFINITY, 1}, other[2] = {-INFINITY, 1}, number[2] = {3e38f, 1};
    onnx_case("right", &(struct sample){.op = "Reciprocal", .count = 2, .in = in, .out = right});
    onnx_case("other", &(struct sample){.op = "Reciprocal", .count = 2, .in = in, .out = other});
    onnx_case("number", &(struct sample){.op = "Reciprocal", .count = 2, .in = in, .out = number});
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "1 passed, 2 failed, 0 skipped");
    cr_assert_str_eq(field(&p, "right", 0), "pass");
}

Test(verify, bounds_are_those_of_the_suite)
{
    /* rtol 1e-3 and atol 1e-7 around 2.5; a golden output is bound by 1e-4 of its range (3). */
    const float in[2] = {0, 3}, near[2] = {0, 3.0029f}, far[2] = {0, 3.0031f}, zero[2] = {2e-7f, 3};
    const float close[2] = {0, 3.00002f}, wide[2] = {0, 3.0004f};
    onnx_case("near", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = near});
    onnx_case("far", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = far});
    onnx_case("zero", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = zero});
    onnx_case("test_dft_inverse", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = zero});
    golden_case("close", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = close});
    golden_case("wide", &(struct sample){.op = "Relu", .count = 2, .in = in, .out = wide});
    struct printed p = verify(ARGS("--backend", "reference"));
    cr_assert_str_eq(field(&p, "near", 0), "pass");
    cr_assert_str_eq(field(&p, "far", 0), "fail");
    cr_assert_str_eq(field(&p, "zero", 0), "fail");
    cr_assert_str_eq(field(&p, "test_dft_inverse", 0), "pass"); /* named in the table of tolerances */
    cr_assert_str_eq(field(&p, "close/golden/case.json", 0), "pass");
    cr_assert_str_eq(field(&p, "wide/golden/case.json", 0), "fail");
}

Test(verify, a_named_backend_never_passes_on_another)
{
    onnx_case("det", &det);
    onnx_case("relu", &relu);
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 0, "2 passed, 0 failed, 0 skipped");
    struct printed named = verify(ARGS("--backend", "xnnpack"));
    if (named.status == 3) {
        cr_skip_test("this build has no xnnpack");
    }
    EXPECT_SUMS(named, 0, "1 passed, 0 failed, 1 skipped");
    cr_assert_str_eq(field(&named, "relu", 2), "xnnpack");
    cr_assert_str_eq(field(&named, "det", 0), "skip");
    cr_assert_not_null(strstr(field(&named, "det", 5), "Det"), "the reason names no operator:\n%s", named.out);
}

Test(verify, a_refused_operator_is_a_skip_that_names_it)
{
    onnx_case("a", &(struct sample){.op = "NoSuchOperator", .count = 2, .in = ramp, .out = ramp});
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 0, "0 passed, 0 failed, 1 skipped");
    cr_assert_not_null(strstr(field(&p, "a", 5), "NoSuchOperator"), "%s", p.out);
}

Test(verify, broken_files_fail_with_a_sentence)
{
    onnx_case("no_output", &relu);
    cr_assert_eq(remove(path_of("no_output/test_data_set_0/output_0.pb")), 0);
    onnx_case("no_model", &relu);
    text_write("no_model/model.onnx", "this is no model");
    golden_case("no_bin", &relu);
    cr_assert_eq(remove(path_of("no_bin/golden/out.bin")), 0);
    golden_case("short_bin", &relu);
    text_write("short_bin/golden/out.bin", "1234");
    golden_case("no_json", &relu);
    text_write("no_json/golden/case.json", "{\"case\": ");
    struct printed p = verify(ARGS("--backend", "reference"));
    EXPECT_SUMS(p, 1, "0 passed, 5 failed, 0 skipped");
    cr_assert_str_neq(field(&p, "no_model", 5), "-");
}
