/*
 * Looks at the folder of models, one by one, without a thread and without time: what is half there is waited for with a sentence, what is whole is taken,
 * and what served goes on.
 */
#include "watch_own.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "onnx_file.h"
#include "whole.h"

static char root[FOLDER_PATH_BYTES];
static struct catalog catalog;
static struct options options;
static struct watch watch;
static uint64_t generation;

static const char *at(const char *path)
{
    static char paths[4][FOLDER_PATH_BYTES + 96];
    static size_t next;
    char *whole = paths[next++ % 4];
    snprintf(whole, sizeof paths[0], "%s/%.80s", root, path);
    return whole;
}

static void put_text(const char *path, const char *text)
{
    file_write(at(path), text, strlen(text));
}

/* The bytes of y = op(x) over float32 [N, 2]; */
static uint8_t *model_bytes(const char *op, size_t *ret_size)
{
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    return onnx_bytes(
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1},
        ret_size);
}

/* `folder` below the root with that model, in one step. */
static void put(const char *folder, const char *op)
{
    char part[96], whole[96];
    size_t size = 0;
    uint8_t *bytes = model_bytes(op, &size);
    folder_make(at(folder));
    snprintf(part, sizeof part, "%s/.part", folder);
    snprintf(whole, sizeof whole, "%s/model.onnx", folder);
    file_write(at(part), bytes, size);
    cr_assert(rename(at(part), at(whole)) == 0);
    free(bytes);
}

/* True: the list of offers has changed. */
static bool look(void)
{
    bool again = false, changed = watch_look(&watch, &again);
    if (changed)
        retired_offered(&watch.retired, ++generation);
    retired_steps(&watch.retired, generation); /* what was withdrawn settles at once */
    return changed;
}

/* What is offered, "a:1 a:2"; what only lingers in parentheses. */
static const char *offers(void)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < catalog.count; i++) {
        const struct served *served = catalog.models[i];
        if (served->withdrawn)
            continue;
        const char *form = retired_has(&watch.retired, served) ? "%s(%s:%d)" : "%s%s:%d";
        used += (size_t)snprintf(text + used, sizeof text - used, form, used ? " " : "", served->name,
                                 (int)served->version);
    }
    return text;
}

static void offers_are(const char *expected)
{
    cr_assert_str_eq(offers(), expected, "'%s' instead of '%s'", offers(), expected);
}

static char log_text[65536];

/* How often the log says it. Redirected stderr can be read once: what was read is kept. */
static size_t logged(const char *part)
{
    size_t used = strlen(log_text), count = 0;
    fflush(stderr);
    used += fread(log_text + used, 1, sizeof log_text - 1 - used, cr_get_redirected_stderr());
    log_text[used] = '\0';
    for (const char *found = strstr(log_text, part); found; found = strstr(found + 1, part))
        count++;
    return count;
}

#define LOGGED_ONCE(part) cr_expect(logged(part) == 1, "%zu times '%s' in:\n%s", logged(part), part, log_text)

static struct pen_engine *engine_open(void)
{
    struct pen_engine *engine = NULL;
    struct pen_engine_options settings;
    struct pen_error error = {0};
    pen_engine_options_init(&settings);
    settings.backend = "reference";
    cr_assert(pen_engine_new(&settings, &engine, &error) == PEN_OK, "%s", error.text);
    return engine;
}

/* A start with what lies in the folder. */
static void start(void)
{
    struct pen_error error = {0};
    cr_assert(catalog_scan(root, NULL, 0, &catalog, &error) == PEN_OK, "%s", error.text);
    cr_assert(catalog_load(&catalog, watch.context.engine, NULL, NULL, NULL, &error) == PEN_OK, "%s", error.text);
    while (catalog.entries_count > 0)
        catalog_entry_drop(&catalog, 0);
}

static void setup(void)
{
    cr_redirect_stderr();
    folder_new(root);
    put("a/1", "Neg");
    options = (struct options){.models = root};
    watch.context = (struct watch_context){
        .catalog = &catalog, .engine = engine_open(), .options = &options, .facts = {.slots = 1, .threads = 1}};
    watch.context.orders = orders_new();
    watch.retired.catalog = &catalog;
    watch.retired.quiet_us = 60000000; /* what is replaced lingers for the whole test */
    pthread_mutex_init(&watch.lock, NULL);
}

static void teardown(void)
{
    retired_fini(&watch.retired);
    catalog_fini(&catalog);
    orders_free(watch.context.orders);
    pen_engine_free(watch.context.engine);
    folder_free(root);
}

TestSuite(looks, .init = setup, .fini = teardown, .timeout = 60);

/* ---- half there ---------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_version_whose_folder_comes_before_its_file_is_waited_for)
{
    start();
    folder_make(at("a/2"));
    for (int i = 0; i < 3; i++)
        cr_expect(!look());
    offers_are("a:1");
    LOGGED_ONCE("evt=model_waits model=a version=2");
    LOGGED_ONCE("a/2 holds no model: put model.onnx");
    cr_expect(logged("evt=model_failed") == 0, "%s", log_text);
    put("a/2", "Abs");
    cr_expect(!look(), "two looks must see the same");
    cr_expect(look());
    offers_are("(a:1) a:2");
}

Test(looks, a_copy_that_stalls_while_somebody_writes_is_waited_for_and_taken_when_it_is_whole)
{
    size_t size = 0;
    uint8_t *bytes = model_bytes("Abs", &size);
    start();
    folder_make(at("a/2"));
    int fd = open(at("a/2/model.onnx"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, bytes, size / 2) == (ssize_t)(size / 2));
    for (int i = 0; i < 4; i++)
        cr_expect(!look());
    offers_are("a:1");
    LOGGED_ONCE("a/2/model.onnx is still open for writing");
    cr_expect(logged("evt=model_failed") == 0 && logged("evt=model_loading") == 0, "it is not even tried: %s",
              log_text);
    put("b/1", "Abs"); /* others do not wait for it */
    look();
    cr_expect(look());
    offers_are("a:1 b:1");
    cr_assert(write(fd, bytes + size / 2, size - size / 2) == (ssize_t)(size - size / 2));
    cr_expect(!look() && !look(), "all bytes are there, but the writer is not done");
    close(fd);
    cr_expect(look());
    offers_are("(a:1) b:1 a:2");
    free(bytes);
}

Test(looks, where_a_refused_lease_says_nothing_of_writers_nobody_is_waited_for)
{
    cr_expect(!whole_lease_tells(NFS_SUPER_MAGIC) && !whole_lease_tells(SMB2_SUPER_MAGIC));
    cr_expect(whole_lease_tells(EXT4_SUPER_MAGIC) && whole_lease_tells(TMPFS_MAGIC) &&
              whole_lease_tells(OVERLAYFS_SUPER_MAGIC));
}

/* As fallocate and then write: the size says nothing. */
Test(looks, a_file_of_full_size_that_is_not_filled_is_not_taken)
{
    size_t size = 0;
    uint8_t *bytes = model_bytes("Abs", &size);
    start();
    int fd = open(at("a/1/model.onnx.new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    cr_assert(rename(at("a/1/model.onnx.new"), at("a/1/model.onnx")) == 0, "renamed too early");
    cr_expect(!look() && !look() && !look());
    LOGGED_ONCE("a/1/model.onnx is still open for writing");
    close(fd);
    cr_expect(look());
    offers_are("a:1");
    free(bytes);
}

Test(looks, a_file_that_goes_on_changing_is_told_of_once_and_left_alone)
{
    char text[32];
    start();
    folder_make(at("a/2"));
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "%.*s", i + 1, "not a model");
        put_text("a/2/model.onnx", text);
        cr_expect(!look());
    }
    LOGGED_ONCE("the files in");
    LOGGED_ONCE("a/2 are still changing");
    cr_expect(logged("evt=model_loading") == 0, "%s", log_text);
    offers_are("a:1");
}

Test(looks, half_a_file_that_nobody_writes_is_tried_once_and_taken_when_the_rest_comes)
{
    size_t size = 0;
    uint8_t *bytes = model_bytes("Abs", &size);
    start();
    folder_make(at("a/2"));
    file_write(at("a/2/model.onnx"), bytes, size / 2);
    for (int i = 0; i < 4; i++)
        cr_expect(!look());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    offers_are("a:1");
    file_write(at("a/2/model.onnx"), bytes, size);
    cr_expect(!look() && look());
    offers_are("(a:1) a:2");
    free(bytes);
}

Test(looks, an_empty_file_is_waited_for)
{
    start();
    folder_make(at("a/2"));
    put_text("a/2/model.onnx", "");
    cr_expect(!look() && !look() && !look());
    LOGGED_ONCE("a/2/model.onnx is empty so far");
    put("a/2", "Abs");
    cr_expect(!look() && look());
}

/* y = x + w, w in a file beside it. */
static void put_sum(const char *folder)
{
    char file[96];
    const struct onnx_node node = {.op = "Add", .inputs = {"x", "w"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value weight = {.name = "w", .dtype = PEN_DTYPE_F32, .dims = {2}, .rank = 1, .file = "w.data"};
    folder_make(at(folder));
    snprintf(file, sizeof file, "%s/model.onnx", folder);
    onnx_write(at(file), &(struct onnx_model){.nodes = &node,
                                              .nodes_count = 1,
                                              .inputs = &in,
                                              .inputs_count = 1,
                                              .outputs = &out,
                                              .outputs_count = 1,
                                              .weights = &weight,
                                              .weights_count = 1});
}

Test(looks, external_data_that_comes_after_its_model_is_taken_and_so_is_its_change)
{
    const float w[2] = {1, 2}, v[2] = {3, 4};
    start();
    put_sum("a/2");
    for (int i = 0; i < 4; i++)
        cr_expect(!look());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    offers_are("a:1");
    file_write(at("a/2/.w"), w, sizeof w);
    cr_assert(rename(at("a/2/.w"), at("a/2/w.data")) == 0);
    cr_expect(!look() && look(), "%s", (logged(""), log_text));
    offers_are("(a:1) a:2");
    struct digest before = catalog_find(&catalog, "a", 2)->digest;
    file_write(at("a/2/.w"), v, sizeof v);
    cr_assert(rename(at("a/2/.w"), at("a/2/w.data")) == 0);
    cr_expect(!look() && look());
    cr_expect(!digest_equal(before, catalog_find(&catalog, "a", 2)->digest), "other weights, other answers");
}

Test(looks, a_pointer_of_git_lfs_is_said_to_be_one)
{
    start();
    folder_make(at("a/2"));
    put_text("a/2/model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 500000000\n");
    cr_expect(!look() && !look() && !look());
    LOGGED_ONCE("is a pointer of git-lfs, not the model itself: run git lfs pull");
    offers_are("a:1");
    put("a/2", "Abs"); /* as the checkout does it: another file under that name */
    cr_expect(!look() && look());
    offers_are("(a:1) a:2");
}

Test(looks, a_file_whose_permissions_change_is_tried_again)
{
    start();
    folder_make(at("a/2"));
    put_text("a/2/model.onnx", "as good as unreadable, also for root");
    cr_expect(!look() && !look() && !look());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    cr_assert(chmod(at("a/2/model.onnx"), 0600) == 0);
    cr_expect(!look() && !look());
    cr_expect(logged("evt=model_loading model=a version=2") == 2, "%s", log_text);
}

/* ---- config.json -------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_config_that_comes_after_its_model_is_taken)
{
    start();
    put("b/1", "Abs");
    cr_expect(!look() && look());
    cr_expect(catalog_find(&catalog, "b", 1)->max_batch_size == 8, "by the name of its dimension");
    put_text("b/config.json", "{\"max_batch_size\": 3, \"dyn");
    cr_expect(!look() && !look() && !look());
    LOGGED_ONCE("not JSON");
    offers_are("a:1 b:1");
    put_text("b/config.json", "{\"max_batch_size\": 3}");
    cr_expect(!look() && look());
    cr_expect(catalog_find(&catalog, "b", 1)->max_batch_size == 3);
}

Test(looks, labels_that_come_after_their_config_are_waited_for_and_a_change_of_them_is_taken)
{
    start();
    put_text("a/config.json", "{\"output\": {\"labels_file\": \"names.txt\"}}");
    cr_expect(!look() && !look());
    LOGGED_ONCE("names.txt");
    offers_are("a:1");
    put_text("a/names.txt", "left\nright\n");
    cr_expect(!look() && look());
    cr_assert_eq(catalog_find(&catalog, "a", 1)->config.labels_count, 2);
    put_text("a/names.txt", "west\neast\n");
    cr_expect(!look() && look());
    cr_assert_str_eq(catalog_find(&catalog, "a", 1)->config.labels[0], "west");
}

Test(looks, a_config_written_anew_that_says_the_same_loads_nothing)
{
    put_text("a/config.json", "{\"max_batch_size\": 3}");
    start();
    cr_expect(!look());
    put_text("a/config.json", "{ \"max_batch_size\" : 3 }\n");
    cr_expect(!look() && !look() && !look());
    cr_expect(logged("evt=model_loading") == 0, "%s", log_text);
}

/* ---- version_policy ----------------------------------------------------------------------------------------------------------------- */

static void policy(const char *text)
{
    char config[160];
    snprintf(config, sizeof config, "{\"version_policy\": {%s}}", text);
    put_text("a/config.json", config);
}

/* As many looks as it takes until nothing changes. */
static void settle(void)
{
    for (int quiet = 0; quiet < 5; quiet++)
        if (look())
            quiet = 0;
}

Test(looks, policies_may_change_in_every_direction_and_nothing_is_loaded_twice)
{
    put_text("a/config.json", "{\"version_policy\": {\"latest\": {\"num_versions\": 1}}}");
    put("a/2", "Abs");
    put("a/3", "Exp");
    start();
    offers_are("a:3");
    policy("\"all\": {}");
    settle();
    offers_are("a:3 a:2 a:1");
    cr_expect(logged("evt=model_loading model=a version=3") == 0, "it serves: %s", log_text);
    policy("\"latest\": {\"num_versions\": 2}");
    settle();
    offers_are("a:3 a:2 (a:1)");
    policy("\"all\": {}");
    settle();
    offers_are("a:3 a:2 a:1");
    LOGGED_ONCE("evt=model_loading model=a version=2");
    LOGGED_ONCE("evt=model_loading model=a version=1");
    policy("\"specific\": {\"versions\": [1, 3]}");
    settle();
    offers_are("a:3 (a:2) a:1");
}

Test(looks, going_back_to_a_lower_version_counts_at_once)
{
    put("a/2", "Abs");
    start();
    offers_are("a:2");
    policy("\"specific\": {\"versions\": [1]}");
    cr_expect(!look());
    cr_expect(look(), "version 1 is loaded, and version 2 goes");
    offers_are("a:1");
    policy("\"latest\": {}");
    settle();
    offers_are("(a:1) a:2");
}

Test(looks, a_version_that_a_policy_names_before_it_is_there_is_waited_for)
{
    start();
    policy("\"specific\": {\"versions\": [1, 4]}");
    cr_expect(!look() && !look());
    offers_are("a:1");
    LOGGED_ONCE("version_policy names version 4, which is not there");
    cr_expect(logged("evt=model_failed") == 0, "%s", log_text);
    put("a/4", "Abs");
    settle();
    offers_are("a:1 a:4");
}

/* ---- broken ------------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_start_with_a_broken_latest_version_serves_the_one_below_until_it_is_mended)
{
    put("a/2", "Abs");
    folder_make(at("a/3"));
    put_text("a/3/model.onnx", "nonsense");
    folder_make(at("a/4"));
    start();
    offers_are("a:2");
    LOGGED_ONCE("evt=model_failed model=a version=3");
    LOGGED_ONCE("evt=model_waits model=a version=4");
    settle();
    offers_are("a:2");
    put("a/3", "Exp");
    settle();
    offers_are("(a:2) a:3");
}

Test(looks, a_new_model_whose_latest_version_is_broken_is_served_by_the_one_below)
{
    start();
    put("b/1", "Abs");
    folder_make(at("b/2"));
    put_text("b/2/model.onnx", "nonsense");
    settle();
    offers_are("a:1 b:1");
    LOGGED_ONCE("evt=model_failed model=b version=2");
    put("b/2", "Exp");
    settle();
    offers_are("a:1 (b:1) b:2");
    put_text("b/2/model.onnx", "nonsense again");
    settle();
    offers_are("a:1 b:1 b:2");
}

Test(looks, who_stood_in_for_a_version_goes_when_an_order_loads_that_after_all)
{
    const float w[2] = {1, 2};
    struct catalog found;
    struct pen_error error = {0};
    start();
    options.memory_budget = 1; /* byte: no weights fit */
    put_sum("a/2");
    file_write(at("a/2/w.data"), w, sizeof w);
    settle();
    LOGGED_ONCE("evt=model_failed model=a version=2");
    offers_are("a:1");
    options.memory_budget = 0; /* none: its files are the same, so no look tries again */
    settle();
    offers_are("a:1");
    cr_assert(watch_scan(&watch, &found, &error) == PEN_OK, "%s", error.text);
    cr_assert_eq(found.entries[0].version, 2);
    cr_assert(watch_entry_load(&watch, &found.entries[0], &error), "%s", error.text);
    catalog_fini(&found);
    settle();
    offers_are("(a:1) a:2");
}

Test(looks, the_same_fault_after_it_was_mended_is_told_again)
{
    start();
    for (int i = 0; i < 2; i++) {
        put_text("a/config.json", "{\"max_bach_size\": 4}");
        cr_expect(!look() && !look());
        put_text("a/config.json", i ? "{\"max_batch_size\": 3}" : "{\"max_batch_size\": 2}");
        settle();
    }
    cr_expect(logged("did you mean 'max_batch_size'?") == 2, "%s", log_text);
}

/* ---- links -------------------------------------------------------------------------------------------------------------------------- */

static void link_to(const char *target, const char *path)
{
    cr_assert(symlink(at(target), at(".link")) == 0 && rename(at(".link"), at(path)) == 0);
}

Test(looks, a_version_that_is_a_link_is_switched_with_it)
{
    put(".store/x", "Abs");
    put(".store/y", "Exp");
    link_to(".store/x", "a/2");
    start();
    offers_are("a:2");
    struct digest before = catalog_find(&catalog, "a", 2)->digest;
    cr_expect(!look());
    link_to(".store/y", "a/2");
    cr_expect(!look() && look());
    offers_are("a:2");
    cr_expect(!digest_equal(before, catalog_find(&catalog, "a", 2)->digest));
    link_to(".store/nowhere", "a/2");
    cr_expect(!look(), "a link that leads nowhere: not at once");
    cr_expect(look());
    settle();
    offers_are("a:1");
}

Test(looks, a_link_that_is_missing_for_one_look_costs_nothing)
{
    rename(at("a/1"), at(".store"));
    link_to(".store", "a/1");
    start();
    cr_assert(unlink(at("a/1")) == 0);
    cr_expect(!look());
    offers_are("a:1");
    link_to(".store", "a/1");
    cr_expect(!look() && !look());
    offers_are("a:1");
    cr_expect(logged("evt=model_loading") == 0, "%s", log_text);
}

Test(looks, the_whole_folder_of_models_may_be_a_link)
{
    char link[FOLDER_PATH_BYTES + 8];
    put(".new/a/1", "Exp");
    put(".new/b/1", "Abs");
    snprintf(link, sizeof link, "%s.link", root);
    cr_assert(symlink(root, link) == 0);
    options.models = link;
    cr_expect(!look() && look());
    offers_are("a:1");
    cr_assert(unlink(link) == 0 && symlink(at(".new"), link) == 0);
    settle();
    offers_are("a:1 b:1");
    unlink(link);
}

/* ---- gone --------------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_folder_that_was_removed_is_withdrawn_when_two_looks_miss_it)
{
    put("b/1", "Abs");
    start();
    folder_free(at("b"));
    cr_expect(!look());
    offers_are("a:1 b:1");
    cr_expect(look());
    offers_are("a:1");
    LOGGED_ONCE("evt=model_unloaded model=b version=1");
}

Test(looks, a_folder_that_is_emptied_to_be_filled_again_serves_on)
{
    start();
    cr_assert(unlink(at("a/1/model.onnx")) == 0);
    cr_expect(!look() && !look() && !look());
    offers_are("a:1");
    LOGGED_ONCE("evt=model_waits model=a version=1");
    put("a/1", "Abs");
    settle();
    offers_are("a:1");
    LOGGED_ONCE("evt=model_loading model=a version=1");
}

/* What a worker says of a model is what the broker's cache and single-flight go by. */
Test(looks, models_with_random_operators_are_offered_as_not_to_be_cached)
{
    put("random/1", "RandomUniformLike");
    start();
    cr_assert(catalog_find(&catalog, "random", 0) && catalog_find(&catalog, "a", 0), "%s", (logged(""), log_text));
    cr_expect(!catalog_find(&catalog, "random", 0)->cacheable);
    cr_expect(catalog_find(&catalog, "a", 0)->cacheable);
}
