/* remote_index.c - names of a place, sorted; written as lines, or with what they point to. */
#include "remote_index.h"

#include "content_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITES_MAX 8u

struct key_list {
    char (*keys)[PLACE_KEY_BYTES]; /* [count] */
    size_t count, room;
    bool full;
};

static bool key_tell(void *context, const char *key)
{
    struct key_list *list = context;
    if (list->count == list->room && list->room < REMOTE_NAMES_MAX) {
        size_t room = list->room ? 2 * list->room : 64;
        void *keys = realloc(list->keys, room * sizeof *list->keys);
        list->keys = keys ? keys : list->keys;
        list->room = keys ? room : list->room;
    }
    list->full |= list->count == list->room;
    if (!list->full)
        snprintf(list->keys[list->count++], PLACE_KEY_BYTES, "%s", key);
    return !list->full;
}

/* "models/NAME/versions/VERSION", "models/NAME/labels/LABEL"; false: neither, somebody else's file. */
static bool name_parse(const char *key, struct remote_name *ret_name)
{
    struct remote_name name = {.version = 0};
    char kind[16], what[REFERENCE_LABEL_BYTES], again[PLACE_KEY_BYTES];
    if (sscanf(key, "models/%128[^/]/%15[^/]/%64[^/]", name.model, kind, what) != 3 || !reference_name_good(name.model))
        return false;
    if (strcmp(kind, "versions") == 0)
        name.version = reference_version(what);
    else if (strcmp(kind, "labels") == 0 && reference_label_good(what))
        snprintf(name.label, sizeof name.label, "%s", what);
    if (name.version == 0 && !name.label[0])
        return false;
    if (name.version)
        version_key(name.model, name.version, again);
    else
        label_key(name.model, name.label, again);
    *ret_name = name;
    return strcmp(again, key) == 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum pen_status keys_read(struct place *place, struct key_list *ret_list, struct pen_error *reterr)
{
    struct key_list list = {.keys = NULL};
    struct remote_name name;
    enum pen_status status = place_list(place, "models/", key_tell, &list, reterr);
    if (status == PEN_OK && list.full)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.200s has more than %u versions and labels",
                               place_text(place), REMOTE_NAMES_MAX);
    if (status != PEN_OK) {
        free(list.keys);
        return status;
    }
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++)
        if (name_parse(list.keys[i], &name))
            memmove(list.keys[kept++], list.keys[i], sizeof list.keys[0]);
    list.count = kept;
    if (kept > 1)
        qsort(list.keys, kept, sizeof *list.keys, by_key);
    *ret_list = list;
    return PEN_OK;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------------ */

static char *lines_make(const struct key_list *list)
{
    size_t bytes = 1, used = 0;
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->keys[i]) + 1;
    char *text = malloc(bytes);
    for (size_t i = 0; text && i < list->count; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s\n", list->keys[i]);
    if (text)
        text[used] = '\0';
    return text;
}

static enum pen_status lines_read(struct place *place, char **ret_text, struct pen_error *reterr)
{
    struct key_list list = {.keys = NULL};
    enum pen_status status = keys_read(place, &list, reterr);
    if (status != PEN_OK)
        return status;
    *ret_text = lines_make(&list);
    free(list.keys);
    return *ret_text ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the registry's index");
}

static enum pen_status lines_write(struct place *place, const char *text, struct pen_error *reterr)
{
    struct content_digest digest = content_digest_of(text, strlen(text));
    return place_write(place, "index",
                       &(struct place_content){.bytes = text, .fd = -1, .size = strlen(text), .sha256 = digest.hex},
                       reterr);
}

enum pen_status remote_index_write(struct place *place, struct pen_error *reterr)
{
    char *written = NULL, *there = NULL;
    enum pen_status status = lines_read(place, &there, reterr);
    for (unsigned writes = 0; status == PEN_OK && writes < WRITES_MAX && (!written || strcmp(written, there) != 0);
         writes++) {
        free(written);
        written = there;
        there = NULL;
        status = lines_write(place, written, reterr);
        if (status == PEN_OK)
            status = lines_read(place, &there, reterr);
    }
    free(written);
    free(there);
    return status;
}

/* ---- with what they point to --------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct remote_name *x = a, *y = b;
    int models = strcmp(x->model, y->model);
    if (models != 0)
        return models;
    if (!x->label[0] != !y->label[0])
        return x->label[0] ? 1 : -1;
    return x->label[0] ? strcmp(x->label, y->label) : x->version < y->version ? -1 : x->version > y->version;
}

static void label_version(const struct remote_names *names, struct remote_name *label)
{
    for (size_t i = 0; i < names->count; i++)
        if (!names->names[i].label[0] && strcmp(names->names[i].model, label->model) == 0 &&
            content_digest_equal(&names->names[i].digest, &label->digest))
            label->version = names->names[i].version;
}

static enum pen_status names_fill(struct place *place, const struct key_list *list, struct remote_names *names,
                                  struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < list->count; i++) {
        struct remote_name *name = &names->names[names->count];
        name_parse(list->keys[i], name);
        status = pointer_read(place, list->keys[i], &name->digest, reterr);
        if (status == PEN_OK)
            names->count++;
        else if (status == PEN_ERR_NOT_FOUND) /* it went in between */
            status = PEN_OK;
    }
    for (size_t i = 0; i < names->count; i++)
        if (names->names[i].label[0])
            label_version(names, &names->names[i]);
    if (names->count > 1)
        qsort(names->names, names->count, sizeof *names->names, by_name);
    return status;
}

enum pen_status remote_names_read(struct place *place, struct remote_names *ret_names, struct pen_error *reterr)
{
    struct key_list list = {.keys = NULL};
    struct remote_names names = {.count = 0};
    enum pen_status status = keys_read(place, &list, reterr);
    if (status != PEN_OK)
        return status;
    names.names = calloc(list.count + 1, sizeof *names.names);
    status = names.names ? names_fill(place, &list, &names, reterr)
                         : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the registry's names");
    free(list.keys);
    if (status != PEN_OK) {
        free(names.names);
        return status;
    }
    *ret_names = names;
    return PEN_OK;
}
