/* cmd_keygen.c - `penstock keygen`: a new pair of keys. */
#include <stdio.h>

#include "command.h"
#include "keys.h"

struct options {
    const char *name, *roles;
    bool json;
};

static const struct setting settings[] = {{.name = "name",
                                           .type = SETTING_TEXT,
                                           .offset = offsetof(struct options, name),
                                           .def = "somebody",
                                           .help = "name for the broker's list of keys"},
                                          {.name = "roles",
                                           .type = SETTING_TEXT,
                                           .offset = offsetof(struct options, roles),
                                           .def = "submit,observe",
                                           .help = "roles for the broker's list: submit, worker, admin, observe"},
                                          {.name = "json",
                                           .type = SETTING_FLAG,
                                           .offset = offsetof(struct options, json),
                                           .def = "false",
                                           .help = "print one JSON object"},
                                          {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock keygen",
    .usage = "penstock keygen FILE [--name NAME] [--roles ROLES]",
    .about = "Writes a new pair of keys into FILE, which only its owner may read, and prints the public one as a line "
             "for the "
             "broker's --keys file.\nThe secret key is never printed; an existing file is never overwritten.",
    .after = "JSON: {file, public_key}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static int keygen(const struct options *o, const char *path)
{
    struct key_pair pair;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    char text[KEY_TEXT_BYTES];
    enum pen_status status = key_pair_new(&pair);
    if (status != PEN_OK) {
        pen_error_set(&error, status, "this system gives no random numbers");
    } else {
        status = key_file_write(path, &pair, &error);
    }
    key_text(pair.public_key, text);
    key_pair_wipe(&pair);
    if (status != PEN_OK) {
        fprintf(stderr, "penstock: %s: %s\n", pen_status_name(status), error.text);
        return EXIT_JOB_FAILED;
    }
    if (o->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "file", path);
        cJSON_AddStringToObject(json, "public_key", text);
        return command_print(json);
    }
    printf("%s %s %s\n", text, o->name, o->roles);
    return EXIT_OK;
}

int command_keygen(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *path[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&program, argc, argv, &options, path, 1, &count, &store, &code)) {
        return code;
    }
    if (count == 1) {
        code = keygen(&options, path[0]);
    } else {
        fprintf(stderr, "penstock keygen: name the file to write.\n");
        code = EXIT_USAGE;
    }
    settings_free(store);
    return code;
}
