/* Any bytes as a config file. */
#include "settings_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct options {
    bool spin;
    int64_t limit, bytes, timeout;
    double share;
    const char *name, *backend;
    struct setting_list tags;
};

#define AT(field) offsetof(struct options, field)
static const struct setting table[] = {
    {"spin", SETTING_FLAG, AT(spin), "true", NULL, 0, 0, NULL, ""},
    {"queue-limit", SETTING_INT, AT(limit), "1000", "jobs", 1, 5000, NULL, ""},
    {"cache-bytes", SETTING_BYTES, AT(bytes), "64MiB", NULL, 0, 0, NULL, ""},
    {"timeout", SETTING_DURATION, AT(timeout), "5ms", NULL, 1, 60000000, NULL, ""},
    {"share", SETTING_NUMBER, AT(share), "0.5", NULL, 0, 1, NULL, ""},
    {"name", SETTING_TEXT, AT(name), NULL, NULL, 0, 0, NULL, ""},
    {"backend", SETTING_CHOICE, AT(backend), "auto", NULL, 0, 0, "auto|xnnpack|reference", ""},
    {"tag", SETTING_LIST, AT(tags), "a,b", NULL, 0, 0, NULL, ""},
    {.name = NULL},
};
static const struct settings_program program = {"prog", "prog", NULL, NULL, table, NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options options = {.limit = 1, .timeout = 1, .name = "", .backend = "auto"};
    struct pen_error error = {.status = PEN_OK};
    struct settings_store *store = settings_store_new();
    if (!store)
        return 0;
    char *text = malloc(size ? size : 1); /* exact, so that a byte too far is seen */
    if (text) {
        if (size)
            memcpy(text, data, size);
        enum pen_status status = settings_apply_text(&program, "x.conf", text, size, &options, store, &error);
        if (status != error.status || options.limit < 1 || options.limit > 5000 || options.bytes < 0 ||
            options.timeout < 1)
            abort();
        if (!(options.share >= 0 && options.share <= 1) || options.tags.count > SETTING_LIST_MAX ||
            !strlen(options.backend))
            abort();
    }
    free(text);
    settings_free(store);
    return 0;
}
