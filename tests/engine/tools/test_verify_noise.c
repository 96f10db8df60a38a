/* Bounds where the golden is zero or not exact itself: right answers pass, wrong ones do not, NaN never does. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "onnx_file.h"

TestSuite(verify_noise, .init = fixture_setup, .fini = fixture_teardown);

#define ROWS  8
#define TERMS 512

/* NAME/golden/case.json for one input and one output of f32. */
static void golden_write(const char *name, const float *in, size_t columns, const float *out, size_t out_columns)
{
    char path[128], json[1024];
    snprintf(path, sizeof path, "%s/golden", name);
    folder_make(path_of(path));
    snprintf(path, sizeof path, "%s/golden/in.bin", name);
    file_write(path_of(path), in, ROWS * columns * sizeof *in);
    snprintf(path, sizeof path, "%s/golden/out.bin", name);
    file_write(path_of(path), out, ROWS * out_columns * sizeof *out);
    snprintf(json, sizeof json,
             "{\"case\": \"case\", \"model\": \"model.onnx\", \"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", "
             "\"shape\": [%d, 1, %zu], \"file\": \"in.bin\"}], \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", "
             "\"shape\": [%d, 1, %zu], \"file\": \"out.bin\"}]}",
             ROWS, columns, ROWS, out_columns);
    snprintf(path, sizeof path, "%s/golden/case.json", name);
    file_write(path_of(path), json, strlen(json));
}

static void model_write(const char *name, const struct onnx_node *nodes, size_t count, int64_t columns,
                        int64_t out_columns)
{
    char path[128];
    const struct onnx_value in = {.name = "x", .dtype = 1, .dims = {ROWS, 1, columns}, .rank = 3},
                            out = {.name = "y", .dtype = 1, .dims = {ROWS, 1, out_columns}, .rank = 3};
    folder_make(path_of(name));
    snprintf(path, sizeof path, "%s/model.onnx", name);
    onnx_write(path_of(path), &(struct onnx_model){.nodes = nodes,
                                                   .nodes_count = count,
                                                   .inputs = &in,
                                                   .inputs_count = 1,
                                                   .outputs = &out,
                                                   .outputs_count = 1});
}

/* y = E[x^2] - E[x]^2 of each row. */
static void variance_model(const char *name)
{
    static const struct onnx_node nodes[] = {
        {.op = "Mul", .inputs = {"x", "x"}, .outputs = {"xx"}},
        {.op = "GlobalAveragePool", .inputs = {"xx"}, .outputs = {"mean_xx"}},
        {.op = "GlobalAveragePool", .inputs = {"x"}, .outputs = {"mean"}},
        {.op = "Mul", .inputs = {"mean", "mean"}, .outputs = {"squared"}},
        {.op = "Sub", .inputs = {"mean_xx", "squared"}, .outputs = {"y"}},
    };
    model_write(name, nodes, 5, TERMS, 1);
}

static float in[ROWS][TERMS], variance[ROWS];

/* As a runtime that adds one number after the other in f32 computes it: with a mean of 10 the last digits of the sums are most of the answer's. */
static void variance_compute(float mean)
{
    for (int r = 0; r < ROWS; r++) {
        volatile float sum = 0, squares = 0;
        for (int i = 0; i < TERMS; i++) {
            in[r][i] = mean + 0.1f * (float)(r + 1) * sinf((float)(i * (r + 3)));
            volatile float square = in[r][i] * in[r][i];
            sum += in[r][i];
            squares += square;
        }
        volatile float m = sum / TERMS, mm = m * m, mean_squares = squares / TERMS;
        variance[r] = mean_squares - mm;
    }
}

static const char *verdict(const struct printed *p, const char *name, unsigned index)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s/golden/case.json", name);
    return field(p, whole, index);
}

Test(verify_noise, a_golden_that_is_the_less_exact_one_passes_and_says_so)
{
    variance_compute(10);
    variance_model("noisy");
    golden_write("noisy", &in[0][0], TERMS, variance, 1);
    struct printed p = verify(ARGS("--backend", "reference"));
    cr_expect_str_eq(verdict(&p, "noisy", 0), "pass", "%s", p.out);
    cr_expect_not_null(strstr(verdict(&p, "noisy", 5), "within the golden's noise"), "%s", p.out);
}

Test(verify_noise, wrong_answers_do_not_hide_behind_the_noise)
{
    variance_compute(10);
    float off[ROWS], nan[ROWS];
    memcpy(off, variance, sizeof off);
    memcpy(nan, variance, sizeof nan);
    off[3] += 0.05f * (variance[ROWS - 1] - variance[0]);
    nan[3] = NAN;
    variance_model("off");
    golden_write("off", &in[0][0], TERMS, off, 1);
    variance_model("nan");
    golden_write("nan", &in[0][0], TERMS, nan, 1);
    struct printed p = verify(ARGS("--backend", "reference"));
    cr_expect_str_eq(verdict(&p, "off", 0), "fail", "%s", p.out);
    cr_expect_str_eq(verdict(&p, "nan", 0), "fail", "%s", p.out);
}

/* The same model without a mean is not ill-conditioned: a wrong digit of the fourth place is wrong. */
Test(verify_noise, where_nothing_is_amplified_bounds_stay_narrow)
{
    variance_compute(0);
    variance[3] += 3e-4f * (variance[ROWS - 1] - variance[0]);
    variance_model("plain");
    golden_write("plain", &in[0][0], TERMS, variance, 1);
    struct printed p = verify(ARGS("--backend", "reference"));
    cr_expect_str_eq(verdict(&p, "plain", 0), "fail", "%s", p.out);
    cr_expect_not_null(strstr(verdict(&p, "plain", 5), "of the range"), "what the bound is made of: %s", p.out);
}

/* x * 1e-10 twice, over a golden of nothing but zeros. */
static void zeros_case(const char *name, float x, float expected)
{
    static const struct onnx_node nodes[] = {{.op = "Mul", .inputs = {"x", "x"}, .outputs = {"y"}}};
    float from[ROWS * 4], to[ROWS * 4];
    for (int i = 0; i < ROWS * 4; i++) {
        from[i] = x;
        to[i] = expected;
    }
    model_write(name, nodes, 1, 4, 4);
    golden_write(name, from, 4, to, 4);
}

Test(verify_noise, zeros_are_bound_by_an_absolute_step)
{
    zeros_case("tiny", 6e-10f, 0); /* 4e-19 where the golden says 0 */
    zeros_case("wrong", 0.01f, 0); /* 1e-4 */
    zeros_case("nothing", 0, 0);   /* exactly */
    zeros_case("not_a_number", NAN, 0);
    struct printed p = verify(ARGS("--backend", "reference"));
    cr_expect_str_eq(verdict(&p, "tiny", 0), "pass", "%s", p.out);
    cr_expect_str_eq(verdict(&p, "nothing", 0), "pass", "%s", p.out);
    cr_expect_str_eq(verdict(&p, "wrong", 0), "fail", "%s", p.out);
    cr_expect_str_eq(verdict(&p, "not_a_number", 0), "fail", "%s", p.out);
}
