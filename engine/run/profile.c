#include "run/profile.h"

#include <stdlib.h>

struct profile {
    struct pen_profile_row *rows;
    const void **keys;
    size_t count, room;
    size_t next; /* rows come in the same order each run: the search starts behind the last hit */
};

struct profile *profile_new(void)
{
    return calloc(1, sizeof(struct profile));
}

void profile_free(struct profile *p)
{
    if (p != NULL) {
        free(p->rows);
        free((void *)p->keys);
        free(p);
    }
}

static struct pen_profile_row *row_find(struct profile *p, const void *key)
{
    for (size_t i = 0; i < p->count; i++) {
        size_t at = (p->next + i) % p->count;
        if (p->keys[at] == key) {
            p->next = at + 1;
            return &p->rows[at];
        }
    }
    if (p->count == p->room) {
        size_t room = p->room == 0 ? 64 : p->room * 2;
        struct pen_profile_row *rows = realloc(p->rows, room * sizeof *rows);
        if (rows == NULL) {
            return NULL;
        }
        p->rows = rows;
        const void **keys = realloc((void *)p->keys, room * sizeof *keys);
        if (keys == NULL) {
            return NULL;
        }
        p->keys = keys;
        p->room = room;
    }
    p->keys[p->count] = key;
    p->rows[p->count] = (struct pen_profile_row){0};
    p->next = p->count + 1;
    return &p->rows[p->count++];
}

void profile_add(struct profile *p, const void *key, const char *node, const char *op, const char *backend,
                 uint64_t macs, uint64_t ns)
{
    struct pen_profile_row *row = row_find(p, key);
    if (row == NULL) {
        return; /* out of memory: a profile is a help, not a reason to fail */
    }
    row->node = node;
    row->op = op;
    row->backend = backend;
    row->macs = macs;
    row->runs++;
    row->total_ns += ns;
}

const struct pen_profile_row *profile_rows(const struct profile *p, size_t *ret_count)
{
    *ret_count = p->count;
    return p->rows;
}
