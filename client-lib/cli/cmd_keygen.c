/* cmd_keygen.c - `penstock keygen`: a new pair of keys, and its line in the list. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "key_list.h"
#include "keys.h"

struct options {
    const char *name, *roles, *list;
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
                                          {.name = "list",
                                           .type = SETTING_TEXT,
                                           .offset = offsetof(struct options, list),
                                           .def = "",
                                           .help = "add the line to this list of keys, which need not exist yet"},
                                          {.name = "json",
                                           .type = SETTING_FLAG,
                                           .offset = offsetof(struct options, json),
                                           .def = "false",
                                           .help = "print one JSON object"},
                                          {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock keygen",
    .usage = "penstock keygen FILE [--name NAME] [--roles ROLES] [--list LIST]",
    .about = "Writes a new pair of keys into FILE, which only its owner may read, and prints the public one as a line "
             "for the "
             "broker's --keys file.\nThe secret key is never printed; an existing file is never overwritten. --list "
             "writes the "
             "line\ninto the list itself, under a new name first, so that a broker finds the old list or the new one.",
    .after = "JSON: {file, public_key}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static bool roles_valid(const char *roles)
{
    static const char *const known[] = {"submit", "worker", "admin", "observe"};
    for (const char *at = roles;; at++) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < sizeof known / sizeof known[0] && (strlen(known[i]) != length || strncmp(at, known[i], length) != 0))
            i++;
        if (i == sizeof known / sizeof known[0])
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

/* The line that is printed must be one that the broker takes. */
static bool line_valid(const struct options *o)
{
    if (!key_name_valid(o->name)) {
        fprintf(stderr, "penstock keygen: --name '%.80s': a name has 1 to 64 characters of A-Z a-z 0-9 . _ -\n",
                o->name);
        return false;
    }
    if (!roles_valid(o->roles)) {
        fprintf(
            stderr,
            "penstock keygen: --roles '%.80s': the roles are submit, worker, admin and observe, separated by commas\n",
            o->roles);
        return false;
    }
    return true;
}

/* A new list is an empty one. */
static enum pen_status list_read(const char *path, struct key_list *list, struct pen_error *reterr)
{
    return *path && access(path, F_OK) == 0 ? key_list_read(path, false, list, reterr) : PEN_OK;
}

static enum pen_status pair_write(const char *path, char ret_public[KEY_TEXT_BYTES], struct pen_error *reterr)
{
    struct key_pair pair;
    enum pen_status status = key_pair_new(&pair);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "this system gives no random numbers");
    }
    status = key_file_write(path, &pair, reterr);
    key_text(pair.public_key, ret_public);
    key_pair_wipe(&pair);
    return status;
}

/* The list first: no key is made for one that cannot be read. A sealed one is sealed again. */
static int keygen(const struct options *o, const char *path)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct key_list list = {.text = NULL};
    char text[KEY_TEXT_BYTES] = "", line[512];
    enum pen_status status = list_read(o->list, &list, &error);
    if (status == PEN_OK) {
        status = pair_write(path, text, &error);
    }
    snprintf(line, sizeof line, "%s %s %s\n", text, o->name, o->roles);
    if (status == PEN_OK && *o->list) {
        status = key_list_write(o->list, &list, line, list.sealed, &error);
    }
    key_list_fini(&list);
    if (status != PEN_OK) {
        int code = command_fail(&(struct common){.json = o->json}, &error);
        return status == PEN_ERR_INVALID ? EXIT_USAGE : code;
    }
    if (o->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "file", path);
        cJSON_AddStringToObject(json, "public_key", text);
        return command_print(json);
    }
    printf("%s", line);
    return EXIT_OK;
}

int command_keygen(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *path[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&program, argc, argv, path, 1}, &options, &count, &store, &code)) {
        return code;
    }
    if (count == 1 && !line_valid(&options)) {
        code = EXIT_USAGE;
    } else if (count == 1) {
        code = keygen(&options, path[0]);
    } else {
        fprintf(stderr, "penstock keygen: name the file to write.\n");
        code = EXIT_USAGE;
    }
    settings_free(store);
    return code;
}
