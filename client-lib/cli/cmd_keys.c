/* cmd_keys.c - `penstock keys`: is a list of keys whole? And the seal by which that can be told of any list. */
#include <stdio.h>

#include "command.h"
#include "key_list.h"

struct options {
    bool seal, json;
};

static const struct setting settings[] = {
    {.name = "seal",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, seal),
     .def = "false",
     .help = "write its seal, a first line with the number of keys and the SHA-256 of "
             "the rest"},
    {.name = "json",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, json),
     .def = "false",
     .help = "print one JSON object"},
    {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock keys",
    .usage = "penstock keys LIST [--seal]",
    .about =
        "Tells whether a broker's list of keys (its --keys) is whole: a broker refuses a list with bytes that are 0, "
        "one that ends within a line, one without any key, and one that its seal does not fit. Without a seal a list "
        "that was cut behind a line looks whole. After a change by hand seal it again; `penstock keygen --list` does.",
    .after = "JSON: {file, keys, sealed}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static int tell(const struct options *o, const char *path, const struct key_list *list)
{
    if (o->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "file", path);
        cJSON_AddNumberToObject(json, "keys", (double)list->keys);
        cJSON_AddBoolToObject(json, "sealed", list->sealed);
        return command_print(json);
    }
    printf("%s: keys %zu, %s\n", path, list->keys, list->sealed ? "sealed" : "not sealed");
    return EXIT_OK;
}

static int keys(const struct options *o, const char *path)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct key_list list = {.text = NULL};
    enum pen_status status = key_list_read(path, o->seal, &list, &error);
    if (status == PEN_OK && o->seal) {
        status = key_list_write(path, &list, NULL, true, &error);
        list.sealed = true;
    }
    int code = status == PEN_OK ? tell(o, path, &list) : command_fail(&(struct common){.json = o->json}, &error);
    key_list_fini(&list);
    return code;
}

int command_keys(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *path[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&program, argc, argv, path, 1}, &options, &count, &store, &code)) {
        return code;
    }
    if (count == 1) {
        code = keys(&options, path[0]);
    } else {
        fprintf(stderr, "penstock keys: name the list, the file of the broker's --keys.\n");
        code = EXIT_USAGE;
    }
    settings_free(store);
    return code;
}
