/* Model folders that cannot be served: what is wrong is said by name, and the models beside them are served all the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

#define DIGITS_FILE PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

static char models[FOLDER_PATH_BYTES];
static struct pool pool;

static void setup(void)
{
    folder_new(models);
    pool_start(&pool, NULL);
}

static void teardown(void)
{
    pool_stop(&pool);
    folder_free(models);
}

TestSuite(bad_model, .init = setup, .fini = teardown);

static const char *in_models(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", models, name);
    return path;
}

static void write_model(const char *name, const void *bytes, size_t size)
{
    char folder[64], file[96];
    snprintf(folder, sizeof folder, "%s/1", name);
    folder_make(in_models(folder));
    snprintf(file, sizeof file, "%s/1/model.onnx", name);
    file_write(in_models(file), bytes, size);
}

static void write_onnx(const char *name, const struct onnx_model *model)
{
    size_t size;
    uint8_t *bytes = onnx_bytes(model, &size);
    write_model(name, bytes, size);
    free(bytes);
}

/* The only model is bad: the worker says why, naming the words, and ends or stays without offering it; it does not crash. */
static void expect_refused(const char *const words[])
{
    struct process *worker = pool_start_worker(&pool, "xnnpack", models, NULL);
    uint64_t until = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    for (size_t i = 0; words[i]; i++) {
        while (!strstr(process_err(worker), words[i])) {
            cr_assert(support_now_us() < until, "the log does not say '%s':\n%s", words[i], process_err(worker));
            support_sleep_ms(5);
        }
    }
    int status = process_alive(worker) ? process_stop(worker, 5000) : process_wait(worker, 0);
    cr_assert_lt(status, 128, "ended with %d:\n%s", status, process_err(worker));
    process_free(worker);
    pool.workers_count = 0;
}

static const struct onnx_value x = {.name = "x", .dtype = 1, .dims = {1, 4}, .rank = 2};
static const struct onnx_value y = {.name = "y", .dtype = 1, .dims = {1, 4}, .rank = 2};

Test(bad_model, truncated_file_is_named)
{
    size_t size;
    void *bytes = file_read(DIGITS_FILE, &size);
    write_model("cut", bytes, size / 2);
    free(bytes);
    expect_refused((const char *const[]){"cut", NULL});
}

Test(bad_model, random_bytes_are_refused)
{
    uint8_t noise[4096];
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)((i * 2654435761u) >> 13);
    }
    write_model("noise", noise, sizeof noise);
    expect_refused((const char *const[]){"noise", NULL});
}

Test(bad_model, empty_file_is_refused)
{
    write_model("empty", "", 0);
    expect_refused((const char *const[]){"empty", NULL});
}

Test(bad_model, cycle_is_said_to_be_one)
{
    const struct onnx_node nodes[] = {{.op = "Add", .inputs = {"x", "b"}, .outputs = {"a"}},
                                      {.op = "Relu", .inputs = {"a"}, .outputs = {"b"}},
                                      {.op = "Relu", .inputs = {"b"}, .outputs = {"y"}}};
    write_onnx(
        "loop",
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 3, .inputs = &x, .inputs_count = 1, .outputs = &y, .outputs_count = 1});
    expect_refused((const char *const[]){"loop", NULL});
}

Test(bad_model, all_unsupported_operators_are_listed_at_once)
{
    const struct onnx_node nodes[] = {{.op = "Relu", .inputs = {"x"}, .outputs = {"a"}},
                                      {.op = "FrobnicateOne", .inputs = {"a"}, .outputs = {"b"}},
                                      {.op = "FrobnicateTwo", .inputs = {"b"}, .outputs = {"y"}}};
    write_onnx(
        "odd",
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 3, .inputs = &x, .inputs_count = 1, .outputs = &y, .outputs_count = 1});
    expect_refused(
        (const char *const[]){"odd", "FrobnicateOne", "FrobnicateTwo", "FrobnicateOne_1", "FrobnicateTwo_2", NULL});
}

Test(bad_model, huge_shape_is_refused_without_taking_the_memory)
{
    const struct onnx_value huge_in = {.name = "x", .dtype = 1, .dims = {1 << 20, 1 << 20, 1 << 10}, .rank = 3};
    const struct onnx_value huge_out = {.name = "y", .dtype = 1, .dims = {1 << 20, 1 << 20, 1 << 10}, .rank = 3};
    const struct onnx_node node = {.op = "Relu", .inputs = {"x"}, .outputs = {"y"}};
    write_onnx("huge", &(struct onnx_model){.nodes = &node,
                                            .nodes_count = 1,
                                            .inputs = &huge_in,
                                            .inputs_count = 1,
                                            .outputs = &huge_out,
                                            .outputs_count = 1});
    expect_refused((const char *const[]){"huge", NULL});
}

Test(bad_model, folder_without_a_version_is_named)
{
    folder_make(in_models("versionless"));
    file_copy(DIGITS_FILE, in_models("versionless/model.onnx"));
    expect_refused((const char *const[]){"versionless", "version", NULL});
}

Test(bad_model, malformed_config_is_named)
{
    model_folder_make(models, "digits", DIGITS_FILE, "{\"max_batch_size\": \"many\"");
    expect_refused((const char *const[]){"config.json", NULL});
}

Test(bad_model, config_that_does_not_fit_the_model_is_named)
{
    model_folder_make(
        models, "digits", DIGITS_FILE,
        "{\"platform\":\"onnx\",\"input\":{\"preprocess\":{\"input\":\"picture\",\"layout\":\"NCHW\",\"channels\":1,"
        "\"height\":8,\"width\":8,\"mean\":[0],\"scale\":[1]}}}");
    expect_refused((const char *const[]){"picture", NULL});
}

Test(bad_model, does_not_keep_its_neighbours_from_being_served)
{
    struct digits digits;
    digits_load(&digits);
    char *config = file_read(PENSTOCK_SOURCE "/deploy/models/digits/config.json", NULL);
    model_folder_make(models, "digits", DIGITS_FILE, config);
    free(config);
    write_model("broken", "no model", 8);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pen_client *client = digits_client(pool.clients);
    pen_result_free(digits_run(client, &digits, 0, 0));
    cr_assert_not_null(strstr(process_err(pool.workers[0]), "broken"));
    pen_client_free(client);
    digits_free(&digits);
}

Test(bad_model, highest_version_is_served_by_default)
{
    struct digits digits;
    digits_load(&digits);
    char *config = file_read(PENSTOCK_SOURCE "/deploy/models/digits/config.json", NULL);
    model_folder_make(models, "digits", DIGITS_FILE, config);
    free(config);
    folder_make(in_models("digits/12"));
    file_copy(DIGITS_FILE, in_models("digits/12/model.onnx"));
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pen_client *client = digits_client(pool.clients);
    pen_result *result = digits_run(client, &digits, 0, 0);
    cr_assert_eq(pen_result_info(result)->version, 12u, "version %lu", (unsigned long)pen_result_info(result)->version);
    pen_result_free(result);
    pen_client_free(client);
    digits_free(&digits);
}

/* Until it says so; the worker's looks are 100 ms apart. */
static void says(bool yes, const char *part, const char *verb, const char *const argv[])
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    for (;;) {
        char *out = NULL, *err = NULL;
        pool_cli(&pool, verb, argv, &out, &err);
        bool said = strstr(out, part) || strstr(err, part), over = support_now_us() > until;
        cr_assert(said == yes || !over, "%s %s '%s':\n%s%s", verb, yes ? "does not say" : "still says", part, out, err);
        free(out);
        free(err);
        if (said == yes)
            return;
        support_sleep_ms(50);
    }
}

Test(bad_model, is_seen_from_outside_with_the_workers_sentence_until_it_is_mended)
{
    static const char *const all[] = {NULL}, *const json[] = {"--json", NULL};
    static const char *const submit[] = {"digits", PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png", NULL};
    write_model("digits", "no model", 8);
    pool_add_worker(&pool, "xnnpack", models, (const char *const[]){"--allow-empty", "--watch", "100ms", NULL});
    says(true, "digits:1  NOT SERVED by ", "models", all);
    says(true, "could not load digits:1: ", "workers", all);
    says(true, "NOT_FOUND: model \"digits\" is not served; worker ", "submit", submit);
    says(true, "digits/1/model.onnx is not a model", "submit", submit);
    says(true, "digits/1/model.onnx is not a model", "load", (const char *const[]){"--model", "digits", NULL});
    says(true, "\"failed\":[{\"worker\":", "models", json);
    char *config = file_read(PENSTOCK_SOURCE "/deploy/models/digits/config.json", NULL);
    model_folder_make(models, "digits", DIGITS_FILE, config);
    says(false, "NOT SERVED", "models", all);
    says(true, "zero", "submit", submit);
    file_write(in_models("digits/config.json"), "{\"max_bach_size\":4}", 19);
    says(true, "digits  a change is REFUSED by ", "models", all);
    says(true, "did you mean 'max_batch_size'?", "workers", all);
    says(true, "did you mean 'max_batch_size'?", "model", (const char *const[]){"load", "digits", NULL});
    says(true, "zero", "submit", submit);
    file_write(in_models("digits/config.json"), config, strlen(config));
    says(false, "REFUSED", "models", all);
    free(config);
}
