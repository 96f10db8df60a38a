/* Models that take any height and width of 16 k + 1: both backends agree at several sizes, and every output is (size - 1) / 16 + 1 large. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "case_tensor.h"
#include "penstock/engine.h"

struct runner {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
};

static struct runner runner_open(const char *backend, const char *path)
{
    struct pen_engine_options options;
    struct pen_error error = {0};
    struct runner r = {0};
    pen_engine_options_init(&options);
    options.backend = backend;
    cr_assert_eq(pen_engine_new(&options, &r.engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(r.engine, path, &r.model, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(r.model, &r.session, &error), PEN_OK, "%s", error.text);
    return r;
}

static void runner_close(struct runner *r)
{
    pen_session_free(r->session);
    pen_model_free(r->model);
    pen_engine_free(r->engine);
}

static void size_run(struct runner *truth, struct runner *fast, int64_t height, int64_t width)
{
    size_t count = (size_t)(height * width) * 3, outs = 0, others = 0, ins;
    float *pixels = malloc(count * sizeof *pixels);
    struct pen_error error = {0};
    const struct pen_tensor *want, *got, *in = pen_model_inputs(truth->model, &ins);
    char text[256];
    cr_assert(pixels);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (float)(i * 2654435761u % 1000) / 500.0f - 1.0f;
    struct pen_tensor x = {.name = in[0].name,
                           .dtype = PEN_DTYPE_F32,
                           .rank = 4,
                           .dims = {1, height, width, 3},
                           .data = pixels,
                           .bytes = count * sizeof *pixels};
    cr_assert_eq(pen_session_run(truth->session, &x, 1, NULL, &want, &outs, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_run(fast->session, &x, 1, NULL, &got, &others, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(outs, others);
    for (size_t i = 0; i < outs; i++) {
        cr_expect_eq(want[i].dims[1], (height - 1) / 16 + 1);
        cr_expect_eq(want[i].dims[2], (width - 1) / 16 + 1);
        cr_expect(case_tensor_same(&got[i], &want[i], 1e-3, 1e-3, text, sizeof text), "output %zu at %lld x %lld: %s",
                  i, (long long)height, (long long)width, text);
    }
    free(pixels);
}

static void model_run(const char *name)
{
    static const int64_t sizes[][2] = {{33, 33}, {97, 49}, {49, 97}, {113, 113}, {33, 33}};
    char path[512];
    snprintf(path, sizeof path, "%s/models/tfjs/%s", PENSTOCK_SHARED, name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no test data at %s", path);
    struct runner truth = runner_open("reference", path), fast = runner_open("auto", path);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        size_run(&truth, &fast, sizes[i][0], sizes[i][1]);
    runner_close(&truth);
    runner_close(&fast);
}

Test(tf_sizes, posenet_takes_any_size)
{
    model_run("posenet_mobilenet075_q16/model-stride16.json");
}

Test(tf_sizes, bodypix_takes_any_size)
{
    model_run("bodypix_mobilenet050/model-stride16.json");
}
