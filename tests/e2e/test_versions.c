/* `penstock model`: a real pool whose models are loaded, unloaded and labelled while it serves, without --watch. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

static char models[FOLDER_PATH_BYTES], input[FOLDER_PATH_BYTES + 16];
static struct pool pool;

static const char *in_models(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", models, name);
    return path;
}

/* "y" = op("x") over float32 [1, 2]. */
static void put(const char *folder, const char *op)
{
    char file[128];
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = 1, .dims = {1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = 1, .dims = {1, 2}, .rank = 2};
    folder_make(in_models(folder));
    snprintf(file, sizeof file, "%s/model.onnx", folder);
    onnx_write(
        in_models(file),
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

static void setup(void)
{
    const float minus_two[2] = {-2, -2};
    folder_new(models);
    put("net/1", "Neg"); /* 2 */
    snprintf(input, sizeof input, "%s.raw", models);
    file_write(input, minus_two, sizeof minus_two);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "reference", models, NULL);
}

static void teardown(void)
{
    remove(input);
    pool_stop(&pool);
    folder_free(models);
}

TestSuite(versions, .init = setup, .fini = teardown, .timeout = 120);

static int model(const char *const words[], char **ret_out)
{
    char *out = NULL, *err = NULL;
    int code = pool_cli(&pool, "model", words, &out, &err);
    if (ret_out) {
        *ret_out = malloc(strlen(out) + strlen(err) + 1);
        strcpy(stpcpy(*ret_out, out), err);
    }
    free(out);
    free(err);
    return code;
}

#define MODEL(...) model((const char *const[]){__VA_ARGS__, NULL}, NULL)

/* The version that answered and y[0], as "1: 2"; NULL value: the error's status. */
static const char *answer(const char *flag, const char *value)
{
    static char text[64];
    char item[FOLDER_PATH_BYTES + 32], *out = NULL, *err = NULL;
    snprintf(item, sizeof item, "x=%s", input);
    const char *words[] = {"net", "--input", item, "--json", "--no-cache", flag, value, NULL};
    pool_cli(&pool, "submit", words, &out, &err);
    cJSON *json = cJSON_Parse(out);
    const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "jobs"), 0);
    const cJSON *output = cJSON_GetArrayItem(cJSON_GetObjectItem(job, "outputs"), 0);
    const cJSON *y = cJSON_GetArrayItem(cJSON_GetObjectItem(output, "values"), 0);
    const cJSON *status = cJSON_GetObjectItem(job, "status");
    if (y)
        snprintf(text, sizeof text, "%d: %g", cJSON_GetObjectItem(job, "version")->valueint, y->valuedouble);
    else
        snprintf(text, sizeof text, "%s", cJSON_IsString(status) ? status->valuestring : "no answer");
    cJSON_Delete(json);
    free(out);
    free(err);
    return text;
}

Test(versions, a_version_is_loaded_and_takes_over)
{
    cr_assert_str_eq(answer(NULL, NULL), "1: 2");
    put("net/2", "Exp");
    cr_assert_str_eq(answer(NULL, NULL), "1: 2", "nobody looks at the folder by itself");
    cr_assert_eq(MODEL("load", "net"), 0);
    cr_assert_str_eq(answer(NULL, NULL), "2: 0.135335");
    cr_assert_eq(MODEL("load", "net:1"), 0, "beside the newest, on request");
    cr_assert_str_eq(answer("--model-version", "1"), "1: 2");
    cr_assert_str_eq(answer(NULL, NULL), "2: 0.135335");
    cr_assert_eq(MODEL("unload", "net:2"), 0);
    cr_assert_str_eq(answer(NULL, NULL), "1: 2");
    cr_assert_eq(MODEL("unload", "net"), 0);
    cr_assert_eq(MODEL("unload", "net"), 1, "nothing is left");
    cr_assert_eq(MODEL("load", "net"), 0);
    cr_assert_str_eq(answer(NULL, NULL), "2: 0.135335");
}

Test(versions, a_version_that_cannot_be_loaded_leaves_the_old_one_and_says_why)
{
    char *out;
    folder_make(in_models("net/2"));
    file_write(in_models("net/2/model.onnx"), "nonsense", 8);
    cr_assert_eq(model((const char *const[]){"load", "net", NULL}, &out), 1, "%s", out);
    cr_assert(strstr(out, "CORRUPT") || strstr(out, "INVALID"), "%s", out);
    free(out);
    cr_assert_str_eq(answer(NULL, NULL), "1: 2");
    cr_assert_eq(model((const char *const[]){"load", "other", "--json", NULL}, &out), 1);
    cr_assert(strstr(out, "NOT_FOUND") && strstr(out, "\"outcomes\""), "%s", out);
    free(out);
    put("net/2", "Exp");
    cr_assert_eq(MODEL("load", "net"), 0, "mended: it is tried again");
    cr_assert_str_eq(answer(NULL, NULL), "2: 0.135335");
}

/* What config.json says when the order comes counts, also without --watch. */
Test(versions, a_changed_policy_counts_with_the_next_load)
{
    static const struct {
        const char *policy, *first, *second, *without;
    } steps[] = {{"{\"all\": {}}", "1: 2", "2: 0.135335", "2: 0.135335"},
                 {"{\"specific\": {\"versions\": [1]}}", "1: 2", "UNAVAILABLE", "1: 2"},
                 {"{\"latest\": {\"num_versions\": 2}}", "1: 2", "2: 0.135335", "2: 0.135335"}};
    char text[128];
    put("net/2", "Exp");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        snprintf(text, sizeof text, "{\"version_policy\": %s}", steps[i].policy);
        file_write(in_models("net/config.json"), text, strlen(text));
        cr_assert_eq(MODEL("load", "net"), 0);
        cr_assert_str_eq(answer(NULL, NULL), steps[i].without, "%s", text);
        cr_assert_str_eq(answer("--model-version", "1"), steps[i].first, "%s", text);
        cr_assert_str_eq(answer("--model-version", "2"), steps[i].second, "%s", text);
    }
}

Test(versions, an_order_loads_what_it_can_and_says_what_it_waits_for)
{
    char *out;
    put("net/2", "Exp");
    folder_make(in_models("net/3"));
    FILE *copy = fopen(in_models("net/3/model.onnx"), "wb");
    cr_assert(copy && fputs("the first half", copy) >= 0 && fflush(copy) == 0);
    file_write(in_models("net/config.json"), "{\"version_policy\": {\"all\": {}}}", 31);
    cr_assert_eq(model((const char *const[]){"load", "net", NULL}, &out), 1, "%s", out);
    cr_assert(strstr(out, "still open for writing") && strstr(out, "BUSY"), "%s", out);
    free(out);
    cr_assert_str_eq(answer(NULL, NULL), "2: 0.135335", "what is whole is loaded all the same");
    cr_assert_str_eq(answer("--model-version", "1"), "1: 2");
    fclose(copy);
    put("net/3", "Neg");
    cr_assert_eq(MODEL("load", "net"), 0);
    cr_assert_str_eq(answer(NULL, NULL), "3: 2");
}

Test(versions, labels_share_jobs_out)
{
    size_t canary = 0;
    put("net/2", "Exp");
    file_write(in_models("net/config.json"), "{\"version_policy\": {\"all\": {}}}", 31);
    cr_assert_eq(MODEL("load", "net"), 0);
    cr_assert_eq(MODEL("label", "net", "stable", "1"), 0);
    cr_assert_str_eq(answer(NULL, NULL), "1: 2");
    cr_assert_eq(MODEL("label", "net", "canary", "2", "--share", "25%"), 0);
    for (size_t i = 0; i < 8; i++)
        canary += strcmp(answer(NULL, NULL), "2: 0.135335") == 0;
    cr_assert_eq(canary, 2);
    cr_assert_str_eq(answer("--version-label", "canary"), "2: 0.135335");
    cr_assert_eq(MODEL("label", "net", "canary", "none"), 0);
    cr_assert_str_eq(answer("--version-label", "canary"), "NOT_FOUND");
    cr_assert_eq(MODEL("label", "net", "canary", "none"), 1);
    cr_assert_eq(MODEL("label", "net", "canary", "2", "--share", "x"), 2);
    cr_assert_eq(MODEL("label", "net", "canary", "two"), 2);
    cr_assert_eq(MODEL("load"), 2);
}
