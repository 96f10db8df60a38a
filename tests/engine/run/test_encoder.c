/* A transformer encoder, written as exporters write them: whole on xnnpack, the same numbers as on reference, for any batch and length. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder.h"
#include "folder.h"
#include "penstock/engine.h"

static const struct encoder small = {
    .layers = 2, .hidden = 64, .heads = 4, .inner = 128, .vocabulary = 50, .positions = 64, .seed = 9};

#define TOKENS_MAX 256

static struct pen_explain *explain; /* of the engines that are opened; NULL = none */
static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];

struct side {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
};

static void side_open(struct side *s, const char *backend)
{
    struct pen_engine_options options;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = backend;
    options.explain = explain;
    options.strict = true;
    options.vulkan = (struct pen_vulkan_options){.allow_software = true, .validate = true};
    cr_assert_eq(pen_engine_new(&options, &s->engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(s->engine, path, &s->model, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(s->model, &s->session, &error), PEN_OK, "%s", error.text);
}

static void side_close(struct side *s)
{
    pen_session_free(s->session);
    pen_model_free(s->model);
    pen_engine_free(s->engine);
}

static void setup(void)
{
    folder_new(folder);
    snprintf(path, sizeof path, "%s/encoder.onnx", folder);
    encoder_write(&small, path);
}

static void teardown(void)
{
    folder_free(folder);
}

/* Tokens, a mask that hides the end of the last row, and types. */
static const float *run(struct side *s, int64_t batch, int64_t length)
{
    static int64_t ids[TOKENS_MAX], mask[TOKENS_MAX], types[TOKENS_MAX];
    static const char *const names[] = {"input_ids", "attention_mask", "token_type_ids"};
    int64_t *const data[] = {ids, mask, types};
    struct pen_tensor in[3];
    const struct pen_tensor *out = NULL;
    struct pen_error error = {0};
    size_t count = 0;
    for (int64_t i = 0; i < batch * length; i++) {
        ids[i] = (i * 37 + 11) % small.vocabulary;
        mask[i] = i < batch * length - length / 3;
        types[i] = i % length > length / 2;
    }
    for (size_t i = 0; i < 3; i++) {
        in[i] = (struct pen_tensor){.name = names[i],
                                    .dtype = PEN_DTYPE_I64,
                                    .rank = 2,
                                    .dims = {batch, length},
                                    .data = data[i],
                                    .bytes = (size_t)(batch * length) * sizeof(int64_t)};
    }
    cr_assert_eq(pen_session_run(s->session, in, 3, NULL, &out, &count, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(count, 1u);
    cr_assert(out[0].dims[0] == batch && out[0].dims[1] == length && out[0].dims[2] == small.hidden);
    return out[0].data;
}

TestSuite(encoder, .init = setup, .fini = teardown);

Test(encoder, gives_the_numbers_of_reference_whatever_batch_and_length)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 33}, {3, 7}, {4, 64}, {2, 16}};
    struct side fast, truth;
    side_open(&fast, "xnnpack");
    side_open(&truth, "reference");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const float *a = run(&fast, shapes[i][0], shapes[i][1]), *b = run(&truth, shapes[i][0], shapes[i][1]);
        float low = INFINITY, high = -INFINITY, far = 0.0f;
        for (int64_t k = 0; k < shapes[i][0] * shapes[i][1] * small.hidden; k++) {
            cr_assert(isfinite(a[k]) && isfinite(b[k]));
            low = fminf(low, b[k]);
            high = fmaxf(high, b[k]);
            far = fmaxf(far, fabsf(a[k] - b[k]));
        }
        cr_assert_gt(high - low, 1.0f, "an answer that says something");
        cr_assert_leq(far, 1e-4f * (high - low), "%lld x %lld: %g of %g", (long long)shapes[i][0],
                      (long long)shapes[i][1], (double)far, (double)(high - low));
    }
    side_close(&fast);
    side_close(&truth);
}

/* The table of positions is folded for a few positions when the plan is made, and must be for many: else every node would fall to the executor. */
Test(encoder, runs_on_xnnpack_alone_at_any_length)
{
    struct side fast;
    side_open(&fast, "xnnpack");
    pen_session_profile(fast.session, true);
    run(&fast, 1, 1);
    run(&fast, 4, 64);
    size_t rows = 0;
    const struct pen_profile_row *row = pen_session_profile_rows(fast.session, &rows);
    cr_assert_gt(rows, 0u);
    for (size_t i = 0; i < rows; i++) {
        cr_assert_str_eq(row[i].backend, "xnnpack", "%s %s ran on %s", row[i].op, row[i].node, row[i].backend);
    }
    cr_assert_null(strstr(pen_model_placement(fast.model), "executor"), "%s", pen_model_placement(fast.model));
    side_close(&fast);
}

/* Every node on the device, attention of each layer in one dispatch. */
Test(encoder, runs_on_a_gpu_alone_with_attention_joined)
{
    struct pen_engine_options options;
    struct side gpu, truth;
    struct pen_error error = {0};
    size_t count = 0, joined = 0;
    pen_engine_options_init(&options);
    options.backend = "vulkan";
    options.vulkan.allow_software = true;
    if (pen_engine_new(&options, &gpu.engine, &error) != PEN_OK) {
        cr_skip_test("no Vulkan device for this test: %s", error.text);
    }
    pen_engine_free(gpu.engine);
    explain = pen_explain_new();
    side_open(&gpu, "vulkan");
    cr_assert_null(strstr(pen_model_placement(gpu.model), "executor"), "%s", pen_model_placement(gpu.model));
    const float *a = run(&gpu, 3, 17);
    const struct pen_explain_row *row = pen_explain_rows(explain, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        joined += row[i].about == PEN_CHOICE_KERNEL && strcmp(row[i].choice, "vulkan: attention") == 0;
    }
    cr_assert_eq(joined, (size_t)small.layers, "%zu layers run as attention", joined);
    side_open(&truth, "reference");
    const float *b = run(&truth, 3, 17);
    for (int64_t k = 0; k < 3 * 17 * small.hidden; k++) {
        cr_assert(fabsf(a[k] - b[k]) <= 1e-3f, "element %lld is %g, not %g", (long long)k, (double)a[k], (double)b[k]);
    }
    side_close(&gpu);
    side_close(&truth);
    pen_explain_free(explain);
}
