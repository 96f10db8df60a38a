/* Folders of models: which versions are found, which sentence each fault gets. Loading uses the digits model. */
#include "catalog.h"
#include "model_file.h"
#include "onnx_file.h"
#include "warmup.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];
static struct catalog catalog;
static struct pen_engine *engines[4]; /* models use theirs until the end */
static size_t engines_count;

static void run(const char *format, const char *argument)
{
    char command[1024], script[900];
    snprintf(script, sizeof script, format, argument);
    snprintf(command, sizeof command, "cd %s && { %s; }", root, script);
    cr_assert(system(command) == 0, "%s", command);
}

static void tree_open(void)
{
    cr_redirect_stderr();
    snprintf(root, sizeof root, "/tmp/penstock-catalog-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void tree_close(void)
{
    char command[128];
    catalog_fini(&catalog);
    for (size_t i = 0; i < engines_count; i++)
        pen_engine_free(engines[i]);
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert(system(command) == 0);
}

TestSuite(catalog, .init = tree_open, .fini = tree_close);
TestSuite(served, .init = tree_open, .fini = tree_close);

static char log_text[32768];

/* Redirected stderr can be read once: what was read is kept. */
static void log_has(const char *part)
{
    size_t used = strlen(log_text);
    fflush(stderr);
    used += fread(log_text + used, 1, sizeof log_text - 1 - used, cr_get_redirected_stderr());
    log_text[used] = '\0';
    cr_expect(strstr(log_text, part), "'%s' is not in: %s", part, log_text);
}

static struct pen_engine *engine_open(void)
{
    struct pen_engine *engine = NULL;
    struct pen_engine_options options;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = "reference";
    cr_assert(engines_count < sizeof engines / sizeof engines[0]);
    cr_assert(pen_engine_new(&options, &engine, &error) == PEN_OK, "%s", error.text);
    engines[engines_count++] = engine;
    return engine;
}

static void load(const char *const *choices, size_t count, size_t models, size_t failed)
{
    struct pen_error error = {0};
    cr_assert(catalog_scan(root, choices, count, &catalog, &error) == PEN_OK, "%s", error.text);
    struct pen_engine *engine = engine_open();
    cr_assert(catalog_load(&catalog, engine, NULL, NULL, NULL, &error) == PEN_OK, "%s", error.text);
    cr_expect(catalog.count == models && catalog.failed == failed, "%zu models, %zu failed", catalog.count,
              catalog.failed);
}

static void digits_at(const char *path)
{
    char target[200];
    snprintf(target, sizeof target, "mkdir -p %s && cp " PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx %s/", path,
             path);
    run("%s", target);
}

Test(catalog, highest_version_is_served_by_default)
{
    digits_at("d/2");
    digits_at("d/10");
    digits_at("d/x");
    run("mkdir d/011 d/0 d/.hidden; touch d/12 README%s", "");
    load(NULL, 0, 1, 0);
    cr_expect(catalog.models[0]->version == 10, "by number, not by text");
    cr_expect(catalog_find(&catalog, "d", 0) == catalog.models[0]);
    cr_expect(catalog_find(&catalog, "d", 10) == catalog.models[0]);
    cr_expect_null(catalog_find(&catalog, "d", 2));
    cr_expect_null(catalog_find(&catalog, "e", 0));
}

Test(catalog, policy_and_choice_decide_versions)
{
    digits_at("all/1");
    digits_at("all/2");
    run("echo '{\"version_policy\":{\"all\":{}}}' > all/config.json%s", "");
    digits_at("two/1");
    digits_at("two/2");
    digits_at("two/3");
    run("echo '{\"version_policy\":{\"latest\":{\"num_versions\":2}}}' > two/config.json%s", "");
    digits_at("gone/1");
    run("echo '{\"version_policy\":{\"specific\":{\"versions\":[4]}}}' > gone/config.json%s", "");
    load(NULL, 0, 4, 1);
    log_has("version_policy names version 4");
    const struct served *best = catalog_find(&catalog, "two", 0);
    cr_assert(best && best->version == 3);
    cr_expect(catalog_find(&catalog, "two", 2) && !catalog_find(&catalog, "two", 1));
}

/* What was asked for and cannot be served is told with its version. */
static void failed_is(const char *name, uint64_t version, const char *part)
{
    size_t count = 0, all = 0;
    const struct failure *list = failures_list(catalog.failures, &count, &all);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0 && list[i].version == version && strstr(list[i].text, part))
            return;
    cr_expect_fail("no failure of %s, version %u: %s", name, (unsigned)version, part);
}

Test(catalog, what_was_asked_for_fails_under_its_version)
{
    const char *const choices[] = {"d:9", "whole:2", "none:1", "e", "d:1"};
    digits_at("d/1");
    run("mkdir -p whole e && echo '{\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],\"output\":"
        "[{\"name\":\"z\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],\"ensemble_scheduling\":{\"step\":[{\"model_"
        "name\":"
        "\"m\",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"z\"}}]}}' > whole/config.json%s",
        "");
    load(choices, 5, 1, 4);
    failed_is("d", 9, "has no version 9");
    failed_is("whole", 2, "has no version 2");
    failed_is("none", 1, "there is no folder");
    failed_is("e", 0, "has no version: put the model at e/1/model.onnx");
}

static size_t told; /* models that were loaded */

static enum pen_status refuse_all(void *context, struct served *served, uint64_t began_us, struct pen_error *reterr)
{
    cr_expect(context == &told && served && began_us > 0);
    told++;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "nobody wants it");
}

static bool stop_now(void)
{
    return true;
}

/* It is in the catalog while it is warmed, and neither there nor in memory afterwards. */
Test(catalog, who_loads_a_model_may_refuse_it)
{
    struct pen_error error = {0};
    struct pen_engine *engine = engine_open();
    digits_at("d/1");
    digits_at("d/2");
    cr_assert(catalog_scan(root, NULL, 0, &catalog, &error) == PEN_OK, "%s", error.text);
    cr_assert(catalog_load(&catalog, engine, stop_now, refuse_all, &told, &error) == PEN_OK, "%s", error.text);
    cr_expect_eq(told, 0, "the worker ends");
    cr_assert(catalog_load(&catalog, engine, NULL, refuse_all, &told, &error) == PEN_OK, "%s", error.text);
    cr_expect(told == 2 && catalog.count == 0 && catalog.failed == 2, "%zu, %zu, %zu: the lower version stands in",
              told, catalog.count, catalog.failed);
    failed_is("d", 2, "nobody wants it");
    failed_is("d", 1, "nobody wants it");
}

Test(catalog, models_are_taken_while_they_are_in_memory)
{
    struct served *served = NULL;
    digits_at("d/1");
    load(NULL, 0, 1, 0);
    struct served *d = catalog.models[0];
    cr_expect_eq(catalog_take(&catalog, "e", 0, &served), PEN_ERR_NOT_FOUND);
    cr_expect_eq(catalog_take(&catalog, "d", 2, &served), PEN_ERR_NOT_FOUND);
    cr_assert(catalog_take(&catalog, "d", 1, &served) == PEN_OK && served == d);
    cr_expect(atomic_load(&d->users) == 1 && atomic_load(&d->used_us) > 0);
    served_release(d);
    cr_expect_eq(atomic_load(&d->users), 0);
    atomic_store(&d->measured_as, SERVED_NOT_MEASURED);
    cr_assert(catalog_take_unmeasured(&catalog) == d && atomic_load(&d->users) == 1);
    served_release(d);
    atomic_store(&d->measured_as, SERVED_UNMEASURABLE);
    cr_expect_null(catalog_take_unmeasured(&catalog));
    atomic_store(&d->measured_as, SERVED_NOT_MEASURED);
    d->residence.cold = true;
    cr_expect_null(catalog_take_unmeasured(&catalog));
    cr_expect_eq(catalog_take(&catalog, "d", 0, &served), PEN_ERR_UNAVAILABLE);
    d->residence.cold = false;
    atomic_store(&d->withdrawn, true);
    cr_expect_null(catalog_take_unmeasured(&catalog));
    cr_expect_eq(atomic_load(&d->users), 0);
    atomic_store(&d->withdrawn, false);
}

Test(catalog, folders_without_a_model_are_no_versions)
{
    digits_at("d/2");
    digits_at("d/5");
    run("mkdir d/7 d/6 d/1; echo '{\"version_policy\":{\"latest\":{\"num_versions\":3}}}' > d/config.json%s", "");
    load(NULL, 0, 2, 0);
    cr_expect(catalog_find(&catalog, "d", 5) && catalog_find(&catalog, "d", 2));
    cr_expect(catalog_find(&catalog, "d", 0)->version == 5);
}

/* As many as a worker serves, and one more. */
Test(catalog, a_worker_serves_at_most_so_many_models)
{
    struct pen_error error = {0};
    char count[16];
    snprintf(count, sizeof count, "%u", CATALOG_MODELS_MAX);
    run("for i in $(seq %s); do mkdir -p m$i/1; : > m$i/1/model.onnx; done", count);
    cr_assert(catalog_scan(root, NULL, 0, &catalog, &error) == PEN_OK, "%s", error.text);
    cr_expect(catalog.entries_count == CATALOG_MODELS_MAX && catalog.failed == 0, "%zu, %zu", catalog.entries_count,
              catalog.failed);
    catalog_fini(&catalog);
    run("mkdir -p n/1; : > n/1/model.onnx%s", "");
    cr_assert(catalog_scan(root, NULL, 0, &catalog, &error) == PEN_OK, "%s", error.text);
    cr_expect(catalog.entries_count == CATALOG_MODELS_MAX && catalog.failed == 1);
    log_has("a worker serves at most");
}

Test(catalog, choices_name_models_and_versions)
{
    const char *const choices[] = {"d:1", "d", "d:2", "nobody", "d:9", "../etc", "d:x"};
    digits_at("d/1");
    digits_at("d/2");
    digits_at("other/1");
    load(choices, 7, 2, 4);
    log_has("there is no folder");
    log_has("has no version 9");
    log_has("not of the form NAME or NAME:VERSION");
}

Test(catalog, config_of_the_version_wins)
{
    digits_at("d/1");
    run("echo '{\"max_batch_size\":2}' > d/config.json; echo '{\"max_batch_size\":3}' > d/1/config.json%s", "");
    load(NULL, 0, 1, 0);
    cr_expect(catalog.models[0]->max_batch_size == 3);
}

Test(catalog, each_fault_has_its_sentence_and_the_rest_serves)
{
    digits_at("good/1");
    digits_at("typo/1");
    digits_at("gpu/1");
    digits_at("pixels/1");
    run("mkdir -p hollow broken/1 missing/1; echo 'no model' > broken/1/model.onnx%s", "");
    run("echo '{\"max_batch\":1}' > typo/config.json%s", "");
    run("echo '{\"instance_group\":[{\"kind\":\"KIND_GPU\"}]}' > gpu/config.json%s", "");
    run("echo '{\"input\":{\"preprocess\":{\"input\":\"img\"}}}' > pixels/config.json%s", "");
    load(NULL, 0, 1, 6);
    cr_expect_str_eq(catalog.models[0]->name, "good");
    const char *const parts[] = {
        "hollow/1/model.onnx", "did you mean 'max_batch_size'", "KIND_GPU", "the input 'img'", "model=broken",
        "model=missing"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        log_has(parts[i]);
}

/* x + 1 as a TensorFlow.js graph model: one constant of four bytes in a shard. */
#define TOPOLOGY                                                                                                       \
    "{\"modelTopology\":{\"node\":[{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"}" \
    ","                                                                                                                \
    "\"shape\":{\"shape\":{\"dim\":[{\"size\":\"4\"}]}}}},{\"name\":\"w\",\"op\":\"Const\",\"attr\":{\"dtype\":{"      \
    "\"type\":"                                                                                                        \
    "\"DT_FLOAT\"}}},{\"name\":\"y\",\"op\":\"AddV2\",\"input\":[\"x\",\"w\"]}]},\"weightsManifest\":[{\"paths\":"     \
    "[\"w/one.bin\"],\"weights\":[{\"name\":\"w\",\"shape\":[1],\"dtype\":\"float32\"}]}]}"

static void topology_at(const char *path, const char *name, const char *shard)
{
    char script[512], command[2048];
    snprintf(script, sizeof script, "mkdir -p %s/w && printf '%s' > %s/w/one.bin && cat > %s/%s", path, shard, path,
             path, name);
    snprintf(command, sizeof command, "cd %s && %s <<'END'\n%s\nEND\n", root, script, TOPOLOGY);
    cr_assert(system(command) == 0, "%s", command);
}

Test(catalog, topology_of_any_name_is_a_model)
{
    topology_at("a/1", "graph.json", "abcd");
    run("echo '{\"classes\":[1]}' > a/1/labels.json; echo '{\"platform\":\"tfjs\"}' > a/1/config.json%s", "");
    load(NULL, 0, 1, 0);
    cr_expect_str_eq(pen_model_format(catalog.models[0]->model), "tfjs");
    cr_expect_str_eq(catalog.models[0]->inputs[0].name, "x");
}

Test(catalog, a_model_of_integers_is_offered_as_int8)
{
    char path[512];
    run("mkdir -p %s/1", "bytes");
    snprintf(path, sizeof path, "%s/bytes/1/model.onnx", root);
    onnx_write_identity(path);
    topology_at("floats/1", "graph.json", "abcd");
    load(NULL, 0, 2, 0);
    for (size_t i = 0; i < 2; i++) {
        const struct served *served = catalog.models[i];
        bool bytes = strcmp(served->name, "bytes") == 0;
        cr_expect_eq(served_precision(served, PEN_PRECISION_ANY), bytes ? PEN_PRECISION_INT8 : PEN_PRECISION_F32);
    }
}

Test(catalog, none_or_several_models_get_a_sentence)
{
    digits_at("two/1");
    topology_at("two/1", "model.json", "abcd");
    topology_at("pair/1", "a.json", "abcd");
    topology_at("pair/1", "b.json", "abcd");
    run("mkdir -p none/1; echo '{}' > none/1/model.json%s", "");
    digits_at("other/1");
    run("echo '{\"platform\":\"tflite\"}' > other/config.json%s", "");
    load(NULL, 0, 0, 4);
    log_has("two/1 holds two models, model.json and model.onnx: leave one");
    log_has("pair/1 holds two models, a.json and b.json");
    log_has("none/1 holds no model: put model.onnx, model.tflite or a TensorFlow.js model.json");
    log_has("config.json says platform tflite, but the model's format is onnx");
}

static uint64_t stamp_of(const char *name)
{
    struct pen_error error = {0};
    const char *const choices[] = {name};
    catalog_fini(&catalog);
    cr_assert(catalog_scan(root, choices, 1, &catalog, &error) == PEN_OK && catalog.entries_count == 1);
    return catalog.entries[0].stamp;
}

Test(catalog, stamp_and_digest_cover_the_shards)
{
    topology_at("a/1", "model.json", "abcd");
    topology_at("b/1", "model.json", "abce");
    digits_at("d/1");
    load(NULL, 0, 3, 0);
    cr_expect(!digest_equal(catalog.models[0]->digest, catalog.models[1]->digest), "other weights, another digest");
    uint64_t before = stamp_of("a"), one_file = stamp_of("d");
    cr_expect(stamp_of("a") == before, "nothing has changed");
    run("printf wxyz > a/1/w/two && mv a/1/w/two a/1/w/one.bin; touch d/1/README.md d/1/.part%s", "");
    cr_expect(stamp_of("a") != before, "a shard was replaced");
    cr_expect(stamp_of("d") == one_file, "texts and hidden files are no part of a model");
    run("printf wxyz > d/1/weights.bin%s", "");
    cr_expect(stamp_of("d") != one_file, "but other files may be: external data");
}

Test(catalog, folder_that_is_none_is_an_error)
{
    struct pen_error error = {0};
    cr_expect(catalog_scan("/nowhere/at/all", NULL, 0, &catalog, &error) == PEN_ERR_NOT_FOUND);
    cr_expect(strstr(error.text, "/nowhere/at/all"));
}

Test(served, digest_changes_with_what_changes_answers_only)
{
    digits_at("a/1");
    digits_at("b/1");
    digits_at("c/1");
    digits_at("d/1");
    run("echo '{\"max_batch_size\":4,\"dynamic_batching\":{\"max_queue_delay_microseconds\":9}}' > b/config.json%s",
        "");
    run("echo '{\"output\":{\"softmax\":true}}' > c/config.json%s", "");
    run("echo '{\"input\":{\"preprocess\":{\"scale\":[0.5]}}}' > d/config.json%s", "");
    load(NULL, 0, 4, 0);
    struct served **m = catalog.models;
    cr_expect(digest_equal(m[0]->digest, m[1]->digest), "batching changes no answer");
    cr_expect(!digest_equal(m[0]->digest, m[2]->digest) && !digest_equal(m[0]->digest, m[3]->digest));
    cr_expect(m[0]->inputs[0].dtype == PEN_DTYPE_F32 && m[3]->inputs[0].dtype == PEN_DTYPE_U8);
    cr_expect(m[3]->inputs[0].dims[3] == 1 && m[3]->pixels_input == 0 && m[0]->labels_output == 0);
    cr_expect(m[0]->max_batch_size > 1 && m[1]->max_batch_size == 4, "a dimension called N is a batch");
}

Test(served, warm_times_are_kept)
{
    struct pen_error error = {0};
    digits_at("a/1");
    run("echo '{\"max_batch_size\":4,\"dynamic_batching\":{\"preferred_batch_size\":[2]}}' > a/config.json%s", "");
    load(NULL, 0, 1, 0);
    cr_assert(warmup_run(catalog.models[0], 2, &error) == PEN_OK, "%s", error.text);
    cr_expect(catalog.models[0]->warmed && catalog.models[0]->warm_count == 3);
    cr_expect(catalog.models[0]->warm[1].batch == 2 && catalog.models[0]->warm[2].cold_us > 0);
    cr_expect(catalog.models[0]->seats_count == 2, "both slots have a session");
}

/* MODELS/NAME/VERSION/FILE: the model's folder is two up, the root included. */
Test(paths, the_home_of_a_model_is_two_folders_up)
{
    static const char *const homes[][2] = {{"/models/m/1/model.onnx", "/models/m"},
                                           {"/m/1/model.onnx", "/m"},
                                           {"/1/model.onnx", "/"},
                                           {"/model.onnx", "/"},
                                           {"m/1/model.onnx", "m"},
                                           {"1/model.onnx", "."},
                                           {"model.onnx", "."}};
    char home[MODEL_FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        model_file_home(homes[i][0], home);
        cr_expect_str_eq(home, homes[i][1], "%s: %s", homes[i][0], home);
    }
}

Test(catalog, a_folder_that_is_named_nearly_right_is_told)
{
    char near[CATALOG_NEAREST_BYTES];
    run("mkdir -p resnet .resne; : > resne%s", "");
    cr_expect_str_eq(catalog_nearest(root, "resnet1", near), "; did you mean resnet?");
    cr_expect_str_eq(catalog_nearest(root, "something else", near), "");
    run("rmdir resnet%s", "");
    cr_expect_str_eq(catalog_nearest(root, "resnet1", near), "", "hidden folders and files are no models");
}
