/* Looks at the folder of models: policies, versions that stand in for others, links, and folders that go. */
#include "looks.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(looks, .init = looks_setup, .fini = looks_teardown, .timeout = 60);

/* ---- version_policy ----------------------------------------------------------------------------------------------------------------- */

static void policy(const char *text)
{
    char config[160];
    snprintf(config, sizeof config, "{\"version_policy\": {%s}}", text);
    looks_put_text("a/config.json", config);
}

/* As many looks as it takes until nothing changes. */
static void settle(void)
{
    for (int quiet = 0; quiet < 5; quiet++)
        if (looks_again())
            quiet = 0;
}

Test(looks, policies_may_change_in_every_direction_and_nothing_is_loaded_twice)
{
    looks_put_text("a/config.json", "{\"version_policy\": {\"latest\": {\"num_versions\": 1}}}");
    looks_put("a/2", "Abs");
    looks_put("a/3", "Exp");
    looks_start();
    looks_offers_are("a:3");
    policy("\"all\": {}");
    settle();
    looks_offers_are("a:3 a:2 a:1");
    cr_expect(looks_logged("evt=model_loading model=a version=3") == 0, "it serves: %s", looks_log);
    policy("\"latest\": {\"num_versions\": 2}");
    settle();
    looks_offers_are("a:3 a:2 (a:1)");
    policy("\"all\": {}");
    settle();
    looks_offers_are("a:3 a:2 a:1");
    LOGGED_ONCE("evt=model_loading model=a version=2");
    LOGGED_ONCE("evt=model_loading model=a version=1");
    policy("\"specific\": {\"versions\": [1, 3]}");
    settle();
    looks_offers_are("a:3 (a:2) a:1");
}

Test(looks, going_back_to_a_lower_version_counts_at_once)
{
    looks_put("a/2", "Abs");
    looks_start();
    looks_offers_are("a:2");
    policy("\"specific\": {\"versions\": [1]}");
    cr_expect(!looks_again());
    cr_expect(looks_again(), "version 1 is loaded, and version 2 goes");
    looks_offers_are("a:1");
    policy("\"latest\": {}");
    settle();
    looks_offers_are("(a:1) a:2");
}

Test(looks, a_version_that_a_policy_names_before_it_is_there_is_waited_for)
{
    looks_start();
    policy("\"specific\": {\"versions\": [1, 4]}");
    cr_expect(!looks_again() && !looks_again());
    looks_offers_are("a:1");
    LOGGED_ONCE("version_policy names version 4, which is not there");
    cr_expect(looks_logged("evt=model_failed") == 0, "%s", looks_log);
    looks_put("a/4", "Abs");
    settle();
    looks_offers_are("a:1 a:4");
}

/* ---- broken ------------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_start_with_a_broken_latest_version_serves_the_one_below_until_it_is_mended)
{
    looks_put("a/2", "Abs");
    folder_make(looks_at("a/3"));
    looks_put_text("a/3/model.onnx", "nonsense");
    folder_make(looks_at("a/4"));
    looks_start();
    looks_offers_are("a:2");
    LOGGED_ONCE("evt=model_failed model=a version=3");
    LOGGED_ONCE("evt=model_waits model=a version=4");
    settle();
    looks_offers_are("a:2");
    looks_put("a/3", "Exp");
    settle();
    looks_offers_are("(a:2) a:3");
}

Test(looks, a_new_model_whose_latest_version_is_broken_is_served_by_the_one_below)
{
    looks_start();
    looks_put("b/1", "Abs");
    folder_make(looks_at("b/2"));
    looks_put_text("b/2/model.onnx", "nonsense");
    settle();
    looks_offers_are("a:1 b:1");
    LOGGED_ONCE("evt=model_failed model=b version=2");
    looks_put("b/2", "Exp");
    settle();
    looks_offers_are("a:1 (b:1) b:2");
    looks_put_text("b/2/model.onnx", "nonsense again");
    settle();
    looks_offers_are("a:1 b:1 b:2");
}

Test(looks, who_stood_in_for_a_version_goes_when_an_order_loads_that_after_all)
{
    const float w[2] = {1, 2};
    struct catalog found;
    struct pen_error error = {0};
    looks_start();
    looks_options.memory_budget = 1; /* byte: no weights fit */
    looks_put_sum("a/2");
    file_write(looks_at("a/2/w.data"), w, sizeof w);
    settle();
    LOGGED_ONCE("evt=model_failed model=a version=2");
    looks_offers_are("a:1");
    looks_options.memory_budget = 0; /* none: its files are the same, so no look tries again */
    settle();
    looks_offers_are("a:1");
    cr_assert(watch_scan(&looks_watch, &found, &error) == PEN_OK, "%s", error.text);
    cr_assert_eq(found.entries[0].version, 2);
    cr_assert(watch_entry_load(&looks_watch, &found.entries[0], &error), "%s", error.text);
    catalog_fini(&found);
    settle();
    looks_offers_are("(a:1) a:2");
}

Test(looks, the_same_fault_after_it_was_mended_is_told_again)
{
    looks_start();
    for (int i = 0; i < 2; i++) {
        looks_put_text("a/config.json", "{\"max_bach_size\": 4}");
        cr_expect(!looks_again() && !looks_again());
        looks_put_text("a/config.json", i ? "{\"max_batch_size\": 3}" : "{\"max_batch_size\": 2}");
        settle();
    }
    cr_expect(looks_logged("did you mean 'max_batch_size'?") == 2, "%s", looks_log);
}

/* ---- links -------------------------------------------------------------------------------------------------------------------------- */

static void link_to(const char *target, const char *path)
{
    cr_assert(symlink(looks_at(target), looks_at(".link")) == 0 && rename(looks_at(".link"), looks_at(path)) == 0);
}

Test(looks, a_version_that_is_a_link_is_switched_with_it)
{
    looks_put(".store/x", "Abs");
    looks_put(".store/y", "Exp");
    link_to(".store/x", "a/2");
    looks_start();
    looks_offers_are("a:2");
    struct digest before = catalog_find(&looks_catalog, "a", 2)->digest;
    cr_expect(!looks_again());
    link_to(".store/y", "a/2");
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("a:2");
    cr_expect(!digest_equal(before, catalog_find(&looks_catalog, "a", 2)->digest));
    link_to(".store/nowhere", "a/2");
    cr_expect(!looks_again(), "a link that leads nowhere: not at once");
    cr_expect(looks_again());
    settle();
    looks_offers_are("a:1");
}

Test(looks, a_link_that_is_missing_for_one_look_costs_nothing)
{
    rename(looks_at("a/1"), looks_at(".store"));
    link_to(".store", "a/1");
    looks_start();
    cr_assert(unlink(looks_at("a/1")) == 0);
    cr_expect(!looks_again());
    looks_offers_are("a:1");
    link_to(".store", "a/1");
    cr_expect(!looks_again() && !looks_again());
    looks_offers_are("a:1");
    cr_expect(looks_logged("evt=model_loading") == 0, "%s", looks_log);
}

Test(looks, the_whole_folder_of_models_may_be_a_link)
{
    char link[FOLDER_PATH_BYTES + 8];
    looks_put(".new/a/1", "Exp");
    looks_put(".new/b/1", "Abs");
    snprintf(link, sizeof link, "%s.link", looks_root);
    cr_assert(symlink(looks_root, link) == 0);
    looks_options.models = link;
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("a:1");
    cr_assert(unlink(link) == 0 && symlink(looks_at(".new"), link) == 0);
    settle();
    looks_offers_are("a:1 b:1");
    unlink(link);
}

/* ---- gone --------------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_folder_that_was_removed_is_withdrawn_when_two_looks_miss_it)
{
    looks_put("b/1", "Abs");
    looks_start();
    folder_free(looks_at("b"));
    cr_expect(!looks_again());
    looks_offers_are("a:1 b:1");
    cr_expect(looks_again());
    looks_offers_are("a:1");
    LOGGED_ONCE("evt=model_unloaded model=b version=1");
}

Test(looks, a_folder_that_is_emptied_to_be_filled_again_serves_on)
{
    looks_start();
    cr_assert(unlink(looks_at("a/1/model.onnx")) == 0);
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    looks_offers_are("a:1");
    LOGGED_ONCE("evt=model_waits model=a version=1");
    looks_put("a/1", "Abs");
    settle();
    looks_offers_are("a:1");
    LOGGED_ONCE("evt=model_loading model=a version=1");
}

/* What a worker says of a model is what the broker's cache and single-flight go by. */
Test(looks, models_with_random_operators_are_offered_as_not_to_be_cached)
{
    looks_put("random/1", "RandomUniformLike");
    looks_start();
    cr_assert(catalog_find(&looks_catalog, "random", 0) && catalog_find(&looks_catalog, "a", 0), "%s",
              (looks_logged(""), looks_log));
    cr_expect(!catalog_find(&looks_catalog, "random", 0)->cacheable);
    cr_expect(catalog_find(&looks_catalog, "a", 0)->cacheable);
}
