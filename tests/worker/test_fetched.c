/* --models registry:...: the list that it names, without a registry that could be reached. */
#include "fetched.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"

static char root[FOLDER_PATH_BYTES];

static void setup(void)
{
    cr_redirect_stderr();
    folder_new(root);
}

static void teardown(void)
{
    folder_free(root);
}

TestSuite(fetched, .init = setup, .fini = teardown, .timeout = 30);

static enum pen_status open_list(const char *models, struct fetched **ret_fetched, struct pen_error *reterr)
{
    char store[FOLDER_PATH_BYTES + 16], registry[FOLDER_PATH_BYTES + 16];
    snprintf(store, sizeof store, "%s/store", root);
    snprintf(registry, sizeof registry, "%s/registry", root);
    folder_make(registry);
    struct options options = {.transfers = 1, .store_limit = 1 << 20};
    options.models = models;
    options.store = store;
    options.registry = registry;
    options.share_models = "none";
    options.model_peers = "";
    options.exchange = "none";
    *reterr = (struct pen_error){.status = PEN_OK};
    return fetched_open(&options, ret_fetched, reterr);
}

Test(fetched, each_model_of_the_list_is_asked_for)
{
    struct fetched *fetched = NULL;
    struct pen_error error;
    struct catalog catalog = {.count = 0};
    cr_assert_eq(open_list("registry:one, two:stable,three@4", &fetched, &error), PEN_OK, "%s", error.text);
    fetched_failures(fetched, &catalog);
    cr_expect_eq(catalog.failed, 3, "%zu of three are not in the registry", catalog.failed);
    fetched_close(fetched);
    catalog_fini(&catalog);
}

Test(fetched, a_registry_is_asked_where_the_list_begins_with_its_word)
{
    static const char *const none[] = {"", "registry", "registry/a", "registries:a", "models", "Registry:a"};
    cr_expect(fetched_wanted(&(struct options){.models = "registry:a"}) &&
              fetched_wanted(&(struct options){.models = "registry:"}));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_not(fetched_wanted(&(struct options){.models = none[i]}), "%s", none[i]);
}

/* As many as a worker serves, and one more. */
Test(fetched, a_list_has_room_for_as_many_models_as_a_worker_serves)
{
    static char text[CATALOG_MODELS_MAX * 8 + 64];
    struct fetched *fetched = NULL;
    struct pen_error error;
    size_t used = (size_t)snprintf(text, sizeof text, "registry:");
    for (unsigned i = 0; i <= CATALOG_MODELS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "m%u,", i);
    cr_expect_eq(open_list(text, &fetched, &error), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "a worker serves at most"), "%s", error.text);
}

Test(fetched, a_list_without_a_model_is_refused)
{
    struct fetched *fetched = NULL;
    struct pen_error error;
    cr_expect_eq(open_list("registry: ,", &fetched, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "names no model"), "%s", error.text);
}

static size_t failures_logged(void)
{
    static char log[65536];
    size_t used = strlen(log), count = 0;
    fflush(stderr);
    log[used + fread(log + used, 1, sizeof log - 1 - used, cr_get_redirected_stderr())] = '\0';
    for (const char *at = strstr(log, "evt=pull_failed"); at; at = strstr(at + 1, "evt=pull_failed"))
        count++;
    return count;
}

/* Each look asks again; the log has a line when the reason is another one. */
Test(fetched, a_failure_is_told_once)
{
    struct fetched *fetched = NULL;
    struct pen_error error;
    struct catalog catalog = {.count = 0};
    char registry[FOLDER_PATH_BYTES + 64];
    cr_assert_eq(open_list("registry:one", &fetched, &error), PEN_OK, "%s", error.text);
    fetched_look(fetched, &catalog);
    cr_expect_eq(failures_logged(), 0, "the start has told it");
    snprintf(registry, sizeof registry, "%s/registry/models/one/versions", root);
    folder_make(registry);
    snprintf(registry, sizeof registry, "%s/registry/models/one/versions/3", root);
    file_write(registry, "nonsense", 8);
    fetched_look(fetched, &catalog);
    cr_expect_eq(failures_logged(), 1);
    fetched_look(fetched, &catalog);
    cr_expect_eq(failures_logged(), 1);
    fetched_close(fetched);
}
