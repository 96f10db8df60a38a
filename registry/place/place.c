/* place.c - which kind of place a text means; small contents. */
#include "place_kind.h"

#include <sodium.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void slashes_cut(char *text)
{
    for (size_t length = strlen(text); length > 1 && text[length - 1] == '/'; length--)
        text[length - 1] = '\0';
}

static enum pen_status place_fill(struct place *place, const char *text, struct pen_error *reterr)
{
    snprintf(place->text, sizeof place->text, "%s", text);
    snprintf(place->root, sizeof place->root, "%s", starts(text, "file://") ? text + 7 : text);
    slashes_cut(place->root);
    if (starts(text, "http://") || starts(text, "https://")) {
        place->kind = &place_web;
        return PEN_OK;
    }
    if (starts(text, "s3://") || starts(text, "s3+http://") || starts(text, "s3+https://")) {
        place->kind = &place_bucket;
        return place_bucket_init(place, text, reterr);
    }
    place->kind = &place_folder;
    if (strstr(text, "://") && !starts(text, "file://"))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%.200s is no registry: it must be a folder, http://, https://, s3://BUCKET/PREFIX or "
                             "s3+http://HOST/BUCKET/PREFIX",
                             text);
    return PEN_OK;
}

enum pen_status place_open(const char *text, bool (*stop)(void), struct place **ret_place, struct pen_error *reterr)
{
    if (!*text || strlen(text) >= PLACE_TEXT_BYTES)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s",
                             *text ? "the name of the registry is too long"
                                   : "no registry is named: give a folder, http://..., or s3://BUCKET/PREFIX");
    struct place *place = calloc(1, sizeof *place);
    if (!place || !(place->http = http_client_new(stop))) {
        free(place);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a registry");
    }
    enum pen_status status = place_fill(place, text, reterr);
    if (status != PEN_OK) {
        place_close(place);
        return status;
    }
    *ret_place = place;
    return PEN_OK;
}

void place_close(struct place *place)
{
    if (!place)
        return;
    http_client_free(place->http);
    sodium_memzero(&place->key, sizeof place->key);
    free(place);
}

void place_hurry(struct place *place)
{
    place->hurried = true;
    http_client_hurry(place->http);
}

const char *place_text(const struct place *place)
{
    return place->text;
}

bool place_writable(const struct place *place)
{
    return place->kind->writable;
}

enum pen_status place_read(struct place *place, const struct place_part *part, struct pen_error *reterr)
{
    return place->kind->read(place, part, reterr);
}

enum pen_status place_look(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr)
{
    return place->kind->look(place, key, ret_bytes, reterr);
}

enum pen_status place_list(struct place *place, const char *prefix, place_tell *tell, void *context,
                           struct pen_error *reterr)
{
    return place->kind->list(place, prefix, tell, context, reterr);
}

/* Small requests are made again when the server is busy or just not there; large ones go on where they ended, elsewhere. */
static bool again(const struct place *place, enum pen_status status, unsigned *tries)
{
    static const long pauses_ns[] = {50000000, 150000000, 400000000};
    if ((status != PEN_ERR_UNAVAILABLE && status != PEN_ERR_BUSY) || place->hurried ||
        *tries == sizeof pauses_ns / sizeof pauses_ns[0])
        return false;
    nanosleep(&(struct timespec){.tv_nsec = pauses_ns[(*tries)++]}, NULL);
    return true;
}

enum pen_status place_write(struct place *place, const char *key, const struct place_content *content,
                            struct pen_error *reterr)
{
    unsigned tries = 0;
    enum pen_status status = PEN_OK;
    if (!place_writable(place))
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%.200s is a web server, which is only read: push to the folder that it serves, or to a "
                             "bucket",
                             place->text);
    do
        status = place->kind->write(place, key, content, reterr);
    while (again(place, status, &tries));
    return status;
}

/* ---- small contents ------------------------------------------------------------------------------------------------------------------ */

struct small_text {
    char *bytes;
    size_t count, most;
    enum pen_status status;
};

static bool small_take(void *context, uint64_t position, const void *bytes, size_t count)
{
    struct small_text *small = context;
    (void)position; /* from its begin, one after another */
    if (count > small->most - small->count) {
        small->status = PEN_ERR_TOO_LARGE;
        return false;
    }
    char *longer = realloc(small->bytes, small->count + count + 1);
    if (!longer) {
        small->status = PEN_ERR_NO_MEMORY;
        return false;
    }
    memcpy(longer + small->count, bytes, count);
    small->bytes = longer;
    small->count += count;
    longer[small->count] = '\0';
    return true;
}

static enum pen_status small_read(struct place *place, const char *key, size_t most, char **ret_text, size_t *ret_bytes,
                                  struct pen_error *reterr)
{
    struct small_text small = {.most = most, .status = PEN_OK};
    struct place_part whole = {.key = key, .last = UINT64_MAX, .sink = small_take, .context = &small};
    enum pen_status status = place_read(place, &whole, reterr);
    if (status == PEN_OK && small.status != PEN_OK)
        status = pen_error_set(reterr, small.status, "%s of %.200s %s", key, place->text,
                               small.status == PEN_ERR_TOO_LARGE ? "is larger than any such file may be"
                                                                 : "does not fit into memory");
    if (status == PEN_OK && !small.bytes)
        small.bytes = strdup("");
    if (status == PEN_OK && !small.bytes)
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %s", key);
    if (status != PEN_OK) {
        free(small.bytes);
        return status;
    }
    *ret_text = small.bytes;
    *ret_bytes = small.count;
    return PEN_OK;
}

enum pen_status place_read_small(struct place *place, const char *key, size_t most, char **ret_text, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    unsigned tries = 0;
    enum pen_status status = PEN_OK;
    do
        status = small_read(place, key, most, ret_text, ret_bytes, reterr);
    while (again(place, status, &tries));
    return status;
}
