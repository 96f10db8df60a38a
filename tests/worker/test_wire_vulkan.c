/* The real worker on Vulkan (Mesa's lavapipe will do): what its hello says of the device, and that nothing is compiled once it is ready. */
#include "folder.h"
#include "onnx_file.h"
#include "play_broker.h"
#include "process.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];

/* y = tanh(e^x), any batch of rows of two. */
static void model_write(void)
{
    static const char config[] = "{\"max_batch_size\":8,\"dynamic_batching\":{\"preferred_batch_size\":[2,4]}}";
    char file[FOLDER_PATH_BYTES + 16];
    const struct onnx_node nodes[] = {{.op = "Exp", .inputs = {"x"}, .outputs = {"a"}},
                                      {.op = "Softmax", .inputs = {"a"}, .outputs = {"b"}},
                                      {.op = "Tanh", .inputs = {"b"}, .outputs = {"y"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    snprintf(file, sizeof file, "%s/file", root);
    onnx_write(
        file,
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 3, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
    model_folder_make(root, "curve", file, config);
}

/* y = table[x]: an index beyond 3 fails the run. */
static void lookup_write(void)
{
    static const float table[4] = {10.0f, 11.0f, 12.0f, 13.0f};
    char file[FOLDER_PATH_BYTES + 16];
    const struct onnx_node node = {.op = "Gather", .inputs = {"table", "x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_I64, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value weight = {.name = "table", .dtype = PEN_DTYPE_F32, .dims = {4}, .rank = 1, .data = table};
    snprintf(file, sizeof file, "%s/file", root);
    onnx_write(file, &(struct onnx_model){.nodes = &node,
                                          .nodes_count = 1,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = &out,
                                          .outputs_count = 1,
                                          .weights = &weight,
                                          .weights_count = 1});
    model_folder_make(root, "lookup", file, "{\"max_batch_size\":4}");
}

static void (*write_model)(void) = model_write;

static bool device_there(void)
{
    const char *const argv[] = {PENSTOCK_BIN "/penstock-engine", "info", "--backend", "vulkan",
                                "--vk-allow-software",           NULL};
    char *out = NULL, *err = NULL;
    int code = process_run(argv, 60000, &out, &err);
    free(out);
    free(err);
    return code == 0;
}

static void open_served(void)
{
    folder_new(root);
    play_open(&play);
}

static void close_served(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
}

TestSuite(vulkan, .init = open_served, .fini = close_served, .timeout = 120);

static Penstock__WorkerHello *serve(const char *a, const char *b)
{
    const char *const arguments[] = {"--models", root, "--backend", "vulkan",      "--vk-allow-software",
                                     "--slots",  "2",  "--metrics", "127.0.0.1:0", "--vk-device",
                                     "0",        a,    b,           NULL};
    if (!device_there())
        cr_skip_test("no Vulkan device here");
    write_model();
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 1, "%s", play_log(&play));
    return hello;
}

static const char *flag_of(const Penstock__WorkerHello *hello, const char *name)
{
    for (size_t i = 0; i < hello->n_flags; i++)
        if (strcmp(hello->flags[i]->name, name) == 0)
            return hello->flags[i]->value;
    return NULL;
}

Test(vulkan, the_hello_names_the_device)
{
    Penstock__WorkerHello *hello = serve(NULL, NULL);
    static const char *const texts[] = {"vulkan.device", "vulkan.uuid", "vulkan.driver", "vk_kernels"};
    static const char *const numbers[] = {"vulkan.memory_bytes", "vk_subgroup_size"};
    static const char *const features[] = {"vk_f16_storage", "vk_f16_math", "vk_dot8", "vk_coopmat_f16f32"};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        cr_expect(flag_of(hello, features[i]) && strncmp(flag_of(hello, features[i]), "o", 1) == 0, "no %s",
                  features[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect(flag_of(hello, texts[i]) && flag_of(hello, texts[i])[0], "no %s", texts[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *value = flag_of(hello, numbers[i]);
        cr_expect(value && strspn(value, "0123456789") == strlen(value) && value[0], "%s is '%s'", numbers[i],
                  value ? value : "missing");
    }
    cr_expect(strlen(flag_of(hello, "vulkan.uuid")) == 32);
    cr_expect(strtoull(flag_of(hello, "vulkan.memory_bytes"), NULL, 10) > 1u << 20);
    cr_expect_str_eq(flag_of(hello, "selftest.vulkan.f32"), "ok");
    cr_expect_null(flag_of(hello, "vulkan.device.1"));
    cr_expect_str_eq(flag_of(hello, "vk_f16_range"), "keep");
    cr_expect_str_eq(flag_of(hello, "vk_f16_trial"), "on");
}

Test(vulkan, the_trial_of_f16_is_the_options_to_say)
{
    cr_expect_str_eq(flag_of(serve("--vk-f16-trial", "off"), "vk_f16_trial"), "off");
}

Test(vulkan, the_range_of_f16_is_the_options_to_say)
{
    cr_expect_str_eq(flag_of(serve("--vk-f16-range", "refuse"), "vk_f16_range"), "refuse");
}

Test(vulkan, a_broken_table_of_kernels_is_ignored_with_a_line)
{
    char cache[FOLDER_PATH_BYTES], command[FOLDER_PATH_BYTES + 64], *out = NULL, *err = NULL;
    const char *const digits = PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx";
    const char *const tune[] = {PENSTOCK_BIN "/penstock-engine",
                                "tune",
                                "--vk-allow-software",
                                "--vk-device",
                                "0",
                                "--class-time",
                                "0",
                                "--vk-cache-dir",
                                cache,
                                digits,
                                NULL};
    if (!device_there())
        cr_skip_test("no Vulkan device here");
    folder_new(cache);
    cr_assert_eq(process_run(tune, support_slow(60000), &out, &err), 0, "%s", err);
    free(out);
    free(err);
    snprintf(command, sizeof command, "for f in %s/tuning-*; do echo broken >\"$f\"; done", cache);
    cr_assert_eq(system(command), 0);
    serve("--vk-cache-dir", cache);
    cr_assert(play_logged(&play, "evt=tuning_ignored table=corrupt"), "%s", play_log(&play));
    folder_free(cache);
}

#define BURST 48

/* Each dispatch with rows of its own. */
static void burst_check(void)
{
    struct play_result results[BURST];
    float x[BURST][2];
    for (uint64_t i = 0; i < BURST; i++) {
        x[i][0] = (float)i / BURST;
        x[i][1] = 0.5f;
        struct play_job job = {
            .sequence = 1 + i,
            .model = "curve",
            .version = 1,
            .input = {
                .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = x[i], .bytes = sizeof x[i]}};
        play_submit(&play, &job, 1);
    }
    play_results(&play, results, BURST);
    for (size_t i = 0; i < BURST; i++) {
        const float *of = x[results[i].env.job.sequence - 1];
        float a = expf(expf(of[0])), b = expf(expf(of[1]));
        cr_assert_eq(results[i].env.status, PEN_OK, "%s", results[i].error);
        cr_assert_float_eq(results[i].scores[0], tanhf(a / (a + b)), 1e-4f, "job %zu", i);
    }
}

Test(vulkan, a_cache_folder_that_cannot_be_used_is_said_and_it_serves)
{
    Penstock__WorkerHello *hello = serve("--vk-cache-dir", "/dev/null/kernels");
    cr_expect_str_eq(flag_of(hello, "vulkan.pipeline_cache"), "unusable: Not a directory");
    cr_assert(play_logged(&play, "evt=cache_unusable folder=/dev/null/kernels"), "%s", play_log(&play));
    burst_check();
}

/* A slot gives the device the next dispatch while it computes one: so many as it is told. */
Test(vulkan, a_slot_has_several_dispatches_on_the_device)
{
    Penstock__WorkerHello *hello = serve("--vk-in-flight", "3");
    cr_expect_eq(hello->n_models, 1u);
    burst_check();
    cr_expect(play_metric(&play, "runs_ahead_total") > 0);
    cr_expect(play_metric(&play, "batches_total") == BURST);
}

/* A batch that fails on the device, others before and behind it: its jobs run again alone, and only the one to blame fails. */
Test(vulkan, a_bad_job_fails_alone_among_runs_in_flight)
{
    enum { DISPATCHES = 12, JOBS = 3 };
    struct play_result results[DISPATCHES * JOBS];
    int64_t x[DISPATCHES * JOBS][2];
    struct play_job jobs[JOBS];
    write_model = lookup_write;
    Penstock__WorkerHello *hello = serve("--vk-in-flight", "3");
    cr_expect_eq(hello->n_models, 1u);
    for (int i = 0; i < DISPATCHES * JOBS; i++) {
        x[i][0] = i % 4;
        x[i][1] = i % 6 == 4 ? 77 : 3; /* the second job of every other dispatch */
        jobs[i % JOBS] = (struct play_job){
            .sequence = 1 + (uint64_t)i,
            .model = "lookup",
            .version = 1,
            .input = {
                .name = "x", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {1, 2}, .data = x[i], .bytes = sizeof x[i]}};
        if (i % JOBS == JOBS - 1)
            play_submit(&play, jobs, JOBS);
    }
    play_results(&play, results, DISPATCHES * JOBS);
    for (int i = 0; i < DISPATCHES * JOBS; i++) {
        int64_t k = (int64_t)results[i].env.job.sequence - 1;
        bool bad = k % 6 == 4;
        cr_assert_eq(results[i].env.status, bad ? PEN_ERR_INVALID : PEN_OK, "job %d: %s", (int)k, results[i].error);
        cr_assert(bad ? strstr(results[i].error, "77") != NULL : results[i].scores[0] == 10.0f + (float)(k % 4),
                  "job %d: %s %g", (int)k, results[i].error, (double)results[i].scores[0]);
    }
}

static void one_at_a_time(const char *in_flight)
{
    Penstock__WorkerHello *hello = serve("--vk-in-flight", in_flight);
    cr_expect_eq(hello->n_models, 1u);
    if (strcmp(in_flight, "auto") == 0 && strcmp(flag_of(hello, "vulkan.class"), "software") != 0)
        cr_skip_test("the device is no software");
    burst_check();
    cr_expect(play_metric(&play, "runs_ahead_total") == 0);
}

Test(vulkan, one_in_flight_is_one_at_a_time)
{
    one_at_a_time("1");
}

/* Where computing and copying share the processors. */
Test(vulkan, a_software_device_has_one_at_a_time_unless_asked)
{
    one_at_a_time("auto");
}

/* Two slots, each on a device of its own; every size that is declared, several times. */
Test(vulkan, nothing_is_compiled_once_it_is_ready)
{
    static const float x[16] = {0.5f, -0.5f, 1.0f, 0.25f};
    uint32_t sizes[16];
    size_t count = 0;
    Penstock__WorkerHello *hello = serve("--vk-device", "0");
    cr_expect(flag_of(hello, "vulkan.device.1") != NULL, "two devices are named");
    for (size_t i = 0; i < hello->models[0]->n_warm && count < 16; i++)
        sizes[count++] = hello->models[0]->warm[i]->batch;
    cr_assert(count >= 4, "%zu sizes are declared: 1, 2, 4, 8", count);
    for (uint64_t i = 0; i < 6 * count; i++) {
        struct play_result result;
        struct play_job job = {.sequence = 1 + i,
                               .model = "curve",
                               .version = 1,
                               .input = {.name = "x",
                                         .dtype = PEN_DTYPE_F32,
                                         .rank = 2,
                                         .dims = {sizes[i % count], 2},
                                         .data = x,
                                         .bytes = sizes[i % count] * 2 * sizeof(float)}};
        play_submit(&play, &job, 1);
        play_results(&play, &result, 1);
        cr_assert(result.env.status == PEN_OK && result.rows == (int64_t)sizes[i % count], "%s", result.error);
        cr_assert_str_eq(result.backend, "vulkan");
    }
    cr_expect(play_metric(&play, "kernels_compiled_total") >= 3);
    cr_expect(play_metric(&play, "kernels_compiled_after_ready_total") == 0);
    cr_expect(play_metric(&play, "shapes_prepared_total") == 0);
}
