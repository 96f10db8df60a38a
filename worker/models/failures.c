/* failures.c - a short list; the oldest failure comes first. */
#include "failures.h"

#include "assertion.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct failures {
    struct failure items[FAILURES_MAX];
    size_t count;
    size_t beyond; /* failures of the last look, and of loads since then, that found no place here */
    uint64_t changes;
};

struct failures *failures_new(void)
{
    return calloc(1, sizeof(struct failures));
}

void failures_free(struct failures *failures)
{
    free(failures);
}

/* Cuts, but never inside a UTF-8 character. */
static void copy_cut(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room);
    if (length == room)
        for (length--; length > 0 && ((unsigned char)from[length] & 0xC0) == 0x80;)
            length--;
    memcpy(to, from, length);
    to[length] = '\0';
}

static uint64_t unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static struct failure *find(struct failures *failures, const char *name, uint64_t version)
{
    for (size_t i = 0; i < failures->count; i++) {
        struct failure *item = &failures->items[i];
        if (item->version == version && strncmp(item->name, name, CONFIG_NAME_BYTES_MAX) == 0)
            return item;
    }
    return NULL;
}

void failures_add(struct failures *failures, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error)
{
    char text[FAILURE_TEXT_BYTES + 1];
    struct failure *item = failures ? find(failures, name, version) : NULL;
    PEN_ASSERT_SLOW(error->status != PEN_OK && error->text[0], "a model that failed has a status and a sentence");
    if (!failures)
        return;
    if (!item && failures->count == FAILURES_MAX) {
        failures->beyond++;
        return;
    }
    copy_cut(text, sizeof text, error->text);
    bool same = item && item->status == error->status && strcmp(item->text, text) == 0;
    if (!item) {
        PEN_ASSERT(failures->count < FAILURES_MAX, "the list has a row for a failure that comes");
        item = &failures->items[failures->count++];
        copy_cut(item->name, sizeof item->name, name);
        item->version = version;
    }
    item->stamp = stamp;
    item->found = true;
    if (same)
        return;
    item->status = error->status;
    item->since_unix_us = unix_us();
    memcpy(item->text, text, sizeof text);
    failures->changes++;
}

static void take_out(struct failures *failures, size_t place)
{
    PEN_ASSERT(place < failures->count, "a failure that goes is in the list");
    failures->count--;
    failures->changes++;
    memmove(&failures->items[place], &failures->items[place + 1],
            (failures->count - place) * sizeof failures->items[0]);
}

void failures_drop(struct failures *failures, const char *name, uint64_t version, uint64_t stamp)
{
    struct failure *item = failures ? find(failures, name, version) : NULL;
    if (item && (stamp == 0 || item->stamp == stamp))
        take_out(failures, (size_t)(item - failures->items));
}

void failures_look(struct failures *failures)
{
    for (size_t i = 0; failures && i < failures->count; i++)
        failures->items[i].found = failures->items[i].stamp != 0;
    if (failures)
        failures->beyond = 0;
}

void failures_looked(struct failures *failures, bool (*stays)(const void *context, const struct failure *failure),
                     const void *context)
{
    for (size_t i = failures ? failures->count : 0; i-- > 0;) {
        const struct failure *item = &failures->items[i];
        if (!item->found || (item->stamp != 0 && !stays(context, item)))
            take_out(failures, i);
    }
}

const struct failure *failures_list(const struct failures *failures, size_t *ret_count, size_t *ret_all)
{
    *ret_count = failures ? failures->count : 0;
    *ret_all = failures ? failures->count + failures->beyond : 0;
    return failures ? failures->items : NULL;
}

uint64_t failures_changes(const struct failures *failures)
{
    return failures ? failures->changes : 0;
}
