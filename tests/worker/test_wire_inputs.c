/* The real worker and unlike inputs: texts, int64, scalars, no elements at all; and what --placement makes of a model. This test is its broker. */
#include "folder.h"
#include "onnx_file.h"
#include "play_broker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];

static void open_root(void)
{
    folder_new(root);
    play_open(&play);
}

static void close_root(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
}

TestSuite(inputs, .init = open_root, .fini = close_root, .timeout = 60);

/* A model of one node from "x" to "y". */
static void model_make(const char *name, const char *op, struct onnx_value in, struct onnx_value out)
{
    char file[FOLDER_PATH_BYTES + 16];
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    in.name = "x";
    out.name = "y";
    snprintf(file, sizeof file, "%s/file", root);
    onnx_write(
        file,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
    model_folder_make(root, name, file, "{\"max_batch_size\":0}");
}

static Penstock__WorkerHello *start(const char *backend, const char *placement)
{
    const char *const arguments[] = {"--models", root,          "--backend", backend,         "--slots",
                                     "1",        "--placement", placement,   "--allow-empty", NULL};
    play_start(&play, arguments);
    return play_serve(&play, &message);
}

static void run(const char *model, struct pen_tensor input, struct play_result *result)
{
    struct play_job job = {.sequence = 1, .model = model, .input = input};
    job.input.name = "x";
    play_submit(&play, &job, 1);
    play_results(&play, result, 1);
}

Test(inputs, int64_travels_whole)
{
    const int64_t values[3] = {INT64_C(1) << 62, -5, 7};
    int64_t got[3];
    struct play_result result;
    const struct onnx_value sig = {.dtype = PEN_DTYPE_I64, .dims = {-1}, .rank = 1};
    model_make("negative", "Neg", sig, sig);
    start("reference", "fallback");
    run("negative",
        (struct pen_tensor){.dtype = PEN_DTYPE_I64, .rank = 1, .dims = {3}, .data = values, .bytes = sizeof values},
        &result);
    cr_assert(result.env.status == PEN_OK && result.scores_bytes == sizeof got, "%s", result.error);
    memcpy(got, result.scores, sizeof got);
    cr_expect(got[0] == -values[0] && got[1] == 5 && got[2] == -7);
}

Test(inputs, scalars_have_no_dims)
{
    const float value = -2.5f;
    struct play_result result;
    const struct onnx_value sig = {.dtype = PEN_DTYPE_F32, .rank = 0};
    model_make("scalar", "Abs", sig, sig);
    start("reference", "fallback");
    run("scalar", (struct pen_tensor){.dtype = PEN_DTYPE_F32, .data = &value, .bytes = sizeof value}, &result);
    cr_assert(result.env.status == PEN_OK && result.scores_bytes == 4, "%s", result.error);
    cr_expect(result.scores[0] == 2.5f);
    run("scalar",
        (struct pen_tensor){.dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1}, .data = &value, .bytes = sizeof value},
        &result);
    cr_expect(result.env.status == PEN_ERR_SHAPE, "one element is no scalar: %s", result.error);
}

Test(inputs, no_elements_give_no_elements)
{
    struct play_result result;
    const struct onnx_value sig = {.dtype = PEN_DTYPE_F32, .dims = {-1, 3}, .rank = 2};
    model_make("empty", "Abs", sig, sig);
    start("reference", "fallback");
    run("empty", (struct pen_tensor){.dtype = PEN_DTYPE_F32, .rank = 2, .dims = {0, 3}}, &result);
    cr_expect(result.env.status == PEN_OK && result.outputs == 1 && result.rows == 0 && result.scores_bytes == 0, "%s",
              result.error);
    const float row[3] = {-1, 2, -3};
    run("empty",
        (struct pen_tensor){.dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 3}, .data = row, .bytes = sizeof row},
        &result);
    cr_expect(result.env.status == PEN_OK && result.rows == 1 && result.scores[2] == 3, "%s", result.error);
}

Test(inputs, texts_travel_with_their_lengths)
{
    const uint8_t texts[] = {3, 0, 0, 0, 'o', 'n', 'e', 0, 0, 0, 0, 4, 0, 0, 0, 'n', 'i', 'n', 'e'};
    const uint8_t torn[] = {9, 0, 0, 0, 'o', 'n', 'e'};
    struct play_result result;
    const struct onnx_value sig = {.dtype = PEN_DTYPE_STRING, .dims = {-1}, .rank = 1};
    model_make("texts", "Identity", sig, sig);
    Penstock__WorkerHello *hello = start("reference", "fallback");
    cr_assert(hello->n_models == 1 && hello->models[0]->inputs[0]->dtype == PEN_DTYPE_STRING, "%s", play_log(&play));
    run("texts",
        (struct pen_tensor){.dtype = PEN_DTYPE_STRING, .rank = 1, .dims = {3}, .data = texts, .bytes = sizeof texts},
        &result);
    cr_assert(result.env.status == PEN_OK && result.scores_bytes == sizeof texts, "%s", result.error);
    cr_expect(memcmp(result.scores, texts, sizeof texts) == 0 && result.rows == 3);
    run("texts",
        (struct pen_tensor){.dtype = PEN_DTYPE_STRING, .rank = 1, .dims = {1}, .data = torn, .bytes = sizeof torn},
        &result);
    cr_expect(result.env.status != PEN_OK && result.error[0], "a text that ends before its length is refused");
}

/* XNNPACK computes nothing in double precision. */
static void double_make(void)
{
    const struct onnx_value sig = {.dtype = PEN_DTYPE_F64, .dims = {4}, .rank = 1};
    model_make("double", "Abs", sig, sig);
}

Test(inputs, fallback_runs_on_the_reference_what_the_backend_lacks)
{
    const double values[4] = {0, 1, 0, -1e300};
    double got[4];
    struct play_result result;
    double_make();
    Penstock__WorkerHello *hello = start("xnnpack", "fallback");
    cr_assert(hello->n_models == 1, "%s", play_log(&play));
    cr_expect(strstr(hello->models[0]->placement, "reference") != NULL, "%s", hello->models[0]->placement);
    run("double",
        (struct pen_tensor){.dtype = PEN_DTYPE_F64, .rank = 1, .dims = {4}, .data = values, .bytes = sizeof values},
        &result);
    cr_assert(result.env.status == PEN_OK && result.scores_bytes == sizeof got, "%s", result.error);
    memcpy(got, result.scores, sizeof got);
    cr_expect(got[1] == 1 && got[3] == 1e300);
}

Test(inputs, strict_placement_refuses_it_and_names_the_node)
{
    double_make();
    cr_expect(start("xnnpack", "strict")->n_models == 0);
    cr_expect(play_logged(&play, "evt=model_failed") && play_logged(&play, "Abs"), "%s", play_log(&play));
}
