/* A worker on a Vulkan device (Mesa's lavapipe will do), under the validation layer; and what the options say. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digits.h"
#include "folder.h"
#include "pool.h"

/* `penstock-engine info --backend vulkan ...`: its exit code and text. */
static int info(const char *const extra[], char **ret_out, char **ret_err)
{
    const char *argv[24] = {PENSTOCK_BIN "/penstock-engine", "info", "--backend", "vulkan"};
    size_t count = 4;
    for (size_t i = 0; extra != NULL && extra[i] != NULL; i++) {
        argv[count++] = extra[i];
    }
    return process_run(argv, 60000, ret_out, ret_err);
}

static void device_needed(void)
{
    char *out = NULL, *err = NULL;
    int code = info((const char *const[]){"--vk-allow-software", "--vk-validate", NULL}, &out, &err);
    if (code != 0) {
        cr_skip_test("no Vulkan device with the validation layer here: %s", err);
    }
    free(out);
    free(err);
}

static void says(const char *const extra[], const char *name, const char *value)
{
    char *out = NULL, *err = NULL, line[128];
    cr_assert_eq(info(extra, &out, &err), 0, "%s", err);
    snprintf(line, sizeof line, "%-24s %s", name, value);
    cr_assert_not_null(strstr(out, line), "no line '%s' in\n%s", line, out);
    free(out);
    free(err);
}

/* A model folder with the digits model for a GPU. */
static void gpu_models(char models[FOLDER_PATH_BYTES])
{
    size_t bytes = 0;
    char *config = file_read(PENSTOCK_SOURCE "/deploy/models/digits/config.json", &bytes);
    char *kind = strstr(config, "KIND_CPU");
    cr_assert_not_null(kind);
    memcpy(kind, "KIND_GPU", strlen("KIND_GPU"));
    folder_new(models);
    model_folder_make(models, "digits", PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx", config);
    free(config);
}

Test(vulkan, a_worker_serves_the_test_split_and_names_its_device)
{
    struct pool pool;
    struct digits digits;
    device_needed();
    digits_load(&digits);
    pool_start(&pool, NULL);
    char models[FOLDER_PATH_BYTES];
    gpu_models(models);
    pool_add_worker(&pool, "vulkan", models, (const char *const[]){"--vk-allow-software", "--vk-validate", NULL});
    pen_client *client = digits_client(pool.clients);
    size_t correct = 0;
    for (size_t i = 0; i < digits.count; i++) {
        pen_result *result = digits_run(client, &digits, i, 0);
        correct += digits_class(result) == digits.labels[i];
        cr_assert_str_eq(pen_result_info(result)->backend, "vulkan");
        cr_assert_gt(strlen(pen_result_info(result)->device), 0);
        pen_result_free(result);
    }
    cr_assert_eq(correct, digits.correct);
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
    digits_free(&digits);
}

#ifdef LOSSY_FOLDER
#define LOST_JOBS  100
#define LOST_WAVE  4 /* jobs at a time: all together would be few batches */
#define LOST_EVERY "11"

static pen_job *image_submit(pen_client *client, const struct digits *digits, size_t index)
{
    struct pen_tensor tensor = digits_tensor(digits, index);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    digits_job(&tensor, &options);
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

/* The device is lost at every so many submits while jobs come: each has its answer, the one that it has without losses. */
Test(vulkan, a_device_that_is_lost_again_and_again_loses_no_job)
{
    struct pool pool;
    struct digits digits;
    pen_job *jobs[LOST_JOBS];
    char models[FOLDER_PATH_BYTES];
    size_t correct = 0;
    device_needed();
    digits_load(&digits);
    pool_start(&pool, NULL);
    gpu_models(models);
    char now[FOLDER_PATH_BYTES + 8];
    snprintf(now, sizeof now, "%s/lossy", models);
    setenv("LOSSY_WHEN", now, 1);
    setenv("LD_LIBRARY_PATH", LOSSY_FOLDER, 1);
    setenv("LOSSY_EVERY", LOST_EVERY, 1);
    size_t worker = pool_add_worker(&pool, "vulkan", models, (const char *const[]){"--vk-allow-software", NULL});
    unsetenv("LD_LIBRARY_PATH");
    fclose(fopen(now, "w")); /* from here on */
    pen_client *client = digits_client(pool.clients);
    for (size_t i = 0; i < LOST_JOBS + LOST_WAVE; i++) {
        if (i < LOST_JOBS) {
            jobs[i] = image_submit(client, &digits, i);
        }
        if (i < LOST_WAVE) {
            continue;
        }
        struct pen_error error = {0};
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i - LOST_WAVE], 60000000, &result, &error), PEN_OK, "%s", error.text);
        correct += digits_class(result) == digits.labels[i - LOST_WAVE];
        pen_result_free(result);
        pen_job_free(jobs[i - LOST_WAVE]);
    }
    cr_assert_gt(correct * digits.count, LOST_JOBS * digits.correct * 9 / 10, "%zu of %d are right", correct,
                 LOST_JOBS);
    cr_assert(process_wait_text(pool.workers[worker], "evt=device_lost", 1000), "no device was lost");
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
    digits_free(&digits);
}
#endif

Test(vulkan, a_software_device_must_be_allowed)
{
    char *out = NULL, *err = NULL;
    device_needed();
    int status = info(NULL, &out, &err);
    if (status == 0) {
        cr_assert_null(strstr(out, "software"), "%s", out);
        cr_skip_test("this host has a GPU");
    }
    cr_assert_eq(status, 3);
    cr_assert_not_null(strstr(err, "--vk-allow-software"), "%s", err);
    free(out);
    free(err);
}

Test(vulkan, options_are_heard)
{
    char *out = NULL, *err = NULL;
    device_needed();
    says((const char *const[]){"--vk-allow-software", "--vk-kernels", "tiled", NULL}, "vk_kernels", "tiled");
    says((const char *const[]){"--vk-allow-software", "--vk-kernels", "simple", NULL}, "vk_kernels", "simple");
    says((const char *const[]){"--vk-allow-software", "--vk-f16-range", "refuse", NULL}, "vk_f16_range", "refuse");
    says((const char *const[]){"--vk-allow-software", NULL}, "vk_f16_range", "keep");
    says((const char *const[]){"--vk-allow-software", "--vk-f16-trial", "off", NULL}, "vk_f16_trial", "off");
    says((const char *const[]){"--vk-allow-software", NULL}, "vk_f16_trial", "on");
    says((const char *const[]){"--vk-allow-software", "--vk-validate", NULL}, "vk_validate", "on");
    says((const char *const[]){"--vk-allow-software", "--vk-device", "0", NULL}, "vk_validate", "off");
    cr_assert_eq(info((const char *const[]){"--vk-allow-software", "--vk-device", "no such", NULL}, &out, &err), 3);
    cr_assert_not_null(strstr(err, "no such"), "%s", err);
    free(out);
    free(err);
}

Test(vulkan, compiled_pipelines_are_kept_between_starts)
{
    char dir[] = "/tmp/penstock-vulkan-e2e-XXXXXX", command[256];
    device_needed();
    cr_assert_not_null(mkdtemp(dir));
    const char *const extra[] = {"--vk-allow-software", "--vk-cache-dir", dir, NULL};
    says(extra, "vulkan.pipeline_cache", "none");
    says(extra, "vulkan.pipeline_cache", "hit");
    snprintf(command, sizeof command, "for f in %s/*; do echo broken >\"$f\"; done", dir);
    cr_assert_eq(system(command), 0);
    says(extra, "vulkan.pipeline_cache", "corrupt");
    says(extra, "vulkan.pipeline_cache", "hit");
    snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert_eq(system(command), 0);
}

Test(vulkan, a_cache_folder_that_cannot_be_used_is_said_with_its_reason)
{
    const char *const extra[] = {"--vk-allow-software", "--vk-cache-dir", "/dev/null/kernels", NULL};
    char *out = NULL, *err = NULL;
    device_needed();
    cr_assert_eq(info(extra, &out, &err), 0, "%s", err);
    cr_expect_not_null(strstr(err, "cannot be kept in /dev/null/kernels: Not a directory; name a folder"), "%s", err);
    says(extra, "vulkan.pipeline_cache", "unusable: Not a directory");
    free(out);
    free(err);
}

/* One start of a program that loads and warms a model: milliseconds; `state`: what it must say of the cache. */
static double start_ms(const char *dir, const char *state)
{
    char *out = NULL, *err = NULL, word[16] = "";
    double ms = 0.0;
    const char *const argv[] = {PENSTOCK_BIN "/penstock-engine",
                                "bench",
                                "--model",
                                PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx",
                                "--backend",
                                "vulkan",
                                "--vk-allow-software",
                                "--vk-cache-dir",
                                dir,
                                "--runs",
                                "1",
                                NULL};
    cr_assert_eq(process_run(argv, 60000, &out, &err), 0, "%s", err);
    const char *line = strstr(out, "\nstart ");
    cr_assert_not_null(line, "%s", out);
    cr_assert_eq(sscanf(line, "\nstart %lf ms (%15[a-z])", &ms, word), 2, "%s", line);
    cr_assert_str_eq(word, state, "%s", line);
    free(out);
    free(err);
    return ms;
}

Test(vulkan, cold_and_warm_starts_are_told_apart)
{
    char dir[] = "/tmp/penstock-vulkan-start-XXXXXX", command[64];
    device_needed();
    cr_assert_not_null(mkdtemp(dir));
    double cold = start_ms(dir, "cold"), warm = start_ms(dir, "warm");
    printf("digits: cold start %.1f ms, warm start %.1f ms\n", cold, warm);
    cr_assert(cold > 0.0 && warm > 0.0);
    snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert_eq(system(command), 0);
}

static int tune(const char *dir, const char *model, bool json, char **ret_out, char **ret_err)
{
    const char *const argv[] = {PENSTOCK_BIN "/penstock-engine",
                                "tune",
                                "--backend",
                                "vulkan",
                                "--vk-allow-software",
                                "--vk-validate",
                                "--class-time",
                                "1ms",
                                "--vk-cache-dir",
                                dir,
                                model,
                                json ? "--json" : NULL,
                                NULL};
    return process_run(argv, 100000, ret_out, ret_err);
}

Test(vulkan, tuned_kernels_are_kept_and_a_broken_table_is_ignored_with_a_line)
{
    char dir[] = "/tmp/penstock-vulkan-e2e-XXXXXX", command[256], *out = NULL, *err = NULL;
    const char *const digits = PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx";
    device_needed();
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(tune("", digits, false, &out, &err), 0, "%s", err);
    cr_assert_not_null(strstr(out, "not stored"), "%s", out);
    cr_assert_not_null(strstr(err, "--vk-cache-dir"), "%s", err);
    free(out);
    free(err);
    cr_assert_eq(tune(dir, digits, true, &out, &err), 0, "%s", err);
    cr_assert_not_null(strstr(out, "\"stored\":true"), "%s", out);
    cr_assert_not_null(strstr(out, "\"gemv\":"), "%s", out);
    cr_assert_not_null(strstr(out, "\"wrong\":[]"), "%s", out);
    const char *const extra[] = {"--vk-allow-software", "--vk-cache-dir", dir, NULL};
    size_t classes = 0;
    for (const char *at = strstr(out, "\"chosen\""); at != NULL; at = strstr(at + 1, "\"chosen\"")) {
        classes++;
    }
    free(out);
    free(err);
    snprintf(command, sizeof command, "%zu classes", classes);
    cr_assert_gt(classes, 0);
    says(extra, "vulkan.tuned", command);
    snprintf(command, sizeof command, "for f in %s/tuning-*; do echo broken >\"$f\"; done", dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(info(extra, &out, &err), 0);
    cr_assert_not_null(strstr(err, "the table of tuned kernels is corrupt and is ignored"), "%s", err);
    free(out);
    free(err);
    says(extra, "vulkan.tuned", "corrupt");
    snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert_eq(system(command), 0);
    const char *const nothing[] = {PENSTOCK_BIN "/penstock-engine", "tune", NULL};
    cr_assert_eq(process_run(nothing, 60000, &out, &err), 2, "%s", err);
    free(out);
    free(err);
}
