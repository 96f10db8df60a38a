/* What brokers are told of models that are in the folder and not served: each stays as long as it is true, and no longer. */
#include "looks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(failures, .init = looks_setup, .fini = looks_teardown, .timeout = 60);

static const struct failure *failure_of(const char *name, uint64_t version)
{
    size_t count, all;
    const struct failure *list = failures_list(looks_catalog.failures, &count, &all);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0 && list[i].version == version)
            return &list[i];
    return NULL;
}

static size_t failures_all(void)
{
    size_t count, all;
    failures_list(looks_catalog.failures, &count, &all);
    return all;
}

static void looks(int times)
{
    for (int i = 0; i < times; i++)
        looks_again();
}

Test(failures, what_fails_at_the_start_is_kept_with_its_sentence_and_goes_when_it_is_served)
{
    folder_make(looks_at("b/1"));
    looks_put_text("b/1/model.onnx", "no model at all");
    looks_start();
    const struct failure *failure = failure_of("b", 1);
    cr_assert(failure && failure->status != PEN_OK && failure->text[0] && failure->since_unix_us > 0);
    cr_expect(failures_all() == 1);
    uint64_t since_us = failure->since_unix_us;
    looks(4);
    failure = failure_of("b", 1);
    cr_assert(failure, "as long as it lies there");
    cr_expect(failure->since_unix_us == since_us, "and it is not a new one");
    looks_put("b/1", "Abs");
    looks(3);
    looks_offers_are("a:1 b:1");
    cr_expect(failures_all() == 0);
}

Test(failures, a_refused_config_is_kept_while_the_old_one_serves)
{
    looks_start();
    cr_expect(failures_all() == 0);
    looks_put_text("a/config.json", "{\"max_bach_size\": 4}");
    looks(3);
    looks_offers_are("a:1");
    const struct failure *failure = failure_of("a", 0);
    cr_assert(failure && strstr(failure->text, "max_bach_size"), "%s", failure ? failure->text : "none");
    looks_put_text("a/config.json", "{\"platform\": \"tflite\"}");
    looks(3);
    cr_expect(!failure_of("a", 0), "that one was read");
    failure = failure_of("a", 1);
    cr_assert(failure && strstr(failure->text, "tflite"), "and is wrong of the model: %s",
              failure ? failure->text : "none");
    looks_put_text("a/config.json", "{}");
    looks(3);
    looks_offers_are("a:1");
    cr_expect(failures_all() == 0, "%s", failure_of("a", 1) ? failure_of("a", 1)->text : "another");
}

Test(failures, a_new_version_that_cannot_be_loaded_is_kept_until_it_is_gone)
{
    looks_start();
    folder_make(looks_at("a/2"));
    looks_put_text("a/2/model.onnx", "no model at all");
    looks(3);
    looks_offers_are("a:1");
    cr_expect(failure_of("a", 2) != NULL);
    folder_free(looks_at("a/2"));
    looks(1);
    cr_expect(failures_all() == 0);
}

Test(failures, a_folder_without_a_model_is_told_too)
{
    looks_start();
    folder_make(looks_at("empty"));
    looks(1);
    cr_expect(failures_all() == 0, "its model may be on the way");
    looks(1);
    const struct failure *failure = failure_of("empty", 0);
    cr_assert(failure && failure->status == PEN_ERR_NOT_FOUND && strstr(failure->text, "has no version"));
    folder_free(looks_at("empty"));
    looks(1);
    cr_expect(failures_all() == 0);
}

Test(failures, the_list_and_its_texts_have_caps)
{
    struct failures *failures = failures_new();
    struct pen_error error = {.status = PEN_ERR_INVALID};
    char name[16];
    memset(error.text, 'x', sizeof error.text - 1);
    memcpy(error.text + FAILURE_TEXT_BYTES - 1, "\xC3\xA4", 2); /* a letter of two bytes across the cap */
    for (unsigned i = 0; i < FAILURES_MAX + 7; i++) {
        snprintf(name, sizeof name, "m%u", i);
        failures_add(failures, name, 1, 5, &error);
    }
    size_t count, all;
    const struct failure *list = failures_list(failures, &count, &all);
    cr_expect(count == FAILURES_MAX && all == FAILURES_MAX + 7);
    cr_expect(strlen(list[0].text) == FAILURE_TEXT_BYTES - 1, "%zu", strlen(list[0].text));
    uint64_t changes = failures_changes(failures);
    failures_add(failures, "m3", 1, 5, &error);
    cr_expect(failures_changes(failures) == changes, "nothing new was said");
    failures_drop(failures, "m3", 1, 4);
    cr_expect(failures_changes(failures) == changes, "other content");
    failures_drop(failures, "m3", 1, 5);
    cr_expect(failures_changes(failures) != changes);
    failures_add(NULL, "m", 1, 0, &error); /* without memory for a list */
    failures_looked(NULL, NULL, NULL);
    failures_free(failures);
}
