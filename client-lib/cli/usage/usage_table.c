#include "usage/usage_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    unsigned bit;
} words_by[] = {{"hour", USAGE_BY_HOUR}, {"tenant", USAGE_BY_TENANT}, {"model", USAGE_BY_MODEL}};

bool usage_by(const char *words, unsigned *ret_by)
{
    *ret_by = 0;
    while (*words) {
        size_t bytes = strcspn(words, ","), i = 0;
        while (i < 3 && (strlen(words_by[i].word) != bytes || strncmp(words_by[i].word, words, bytes) != 0)) {
            i++;
        }
        if (i == 3) {
            return false;
        }
        *ret_by |= words_by[i].bit;
        words += bytes + (words[bytes] == ',');
    }
    return true;
}

static uint64_t *counts_of(struct pen_usage_row *row, size_t index)
{
    uint64_t *const counts[] = {&row->jobs,   &row->ok,        &row->failed,    &row->cancelled, &row->computed,
                                &row->cached, &row->coalesced, &row->device_us, &row->bytes_in,  &row->bytes_out};
    return index < sizeof counts / sizeof *counts ? counts[index] : NULL;
}

static void add(struct pen_usage_row *to, const struct pen_usage_row *from)
{
    struct pen_usage_row row = *from;
    for (size_t i = 0; counts_of(to, i); i++) {
        *counts_of(to, i) += *counts_of(&row, i);
    }
}

static int compare(const void *a, const void *b)
{
    const struct pen_usage_row *x = a, *y = b;
    int order = (x->hour_unix_s > y->hour_unix_s) - (x->hour_unix_s < y->hour_unix_s);
    order = order ? order : strcmp(x->tenant, y->tenant);
    order = order ? order : strcmp(x->model, y->model);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

static void texts_free(struct pen_usage_row *row)
{
    free((char *)(uintptr_t)row->tenant);
    free((char *)(uintptr_t)row->model);
}

void usage_table_settle(struct usage_table *table)
{
    size_t kept = 0;
    if (table->count > 0) {
        qsort(table->rows, table->count, sizeof *table->rows, compare);
    }
    for (size_t i = 0; i < table->count; i++) {
        if (kept > 0 && compare(&table->rows[kept - 1], &table->rows[i]) == 0) {
            add(&table->rows[kept - 1], &table->rows[i]);
            texts_free(&table->rows[i]);
        } else {
            table->rows[kept++] = table->rows[i];
        }
    }
    table->count = kept;
}

static bool make_room(struct usage_table *table)
{
    if (table->count < table->room) {
        return true;
    }
    usage_table_settle(table);
    if (table->count < table->room / 2) {
        return true;
    }
    size_t room = table->room ? 2 * table->room : 256;
    struct pen_usage_row *grown = table->count < USAGE_TABLE_MAX ? realloc(table->rows, room * sizeof *grown) : NULL;
    if (!grown) {
        return false;
    }
    table->rows = grown;
    table->room = room;
    return true;
}

bool usage_table_add(struct usage_table *table, const struct pen_usage_row *row)
{
    struct pen_usage_row own = *row;
    own.hour_unix_s = table->by & USAGE_BY_HOUR ? row->hour_unix_s : 0;
    own.version = table->by & USAGE_BY_MODEL ? row->version : 0;
    own.tenant = strdup(table->by & USAGE_BY_TENANT ? row->tenant : "");
    own.model = strdup(table->by & USAGE_BY_MODEL ? row->model : "");
    if (!own.tenant || !own.model || !make_room(table)) {
        texts_free(&own);
        return false;
    }
    table->rows[table->count++] = own;
    return true;
}

struct pen_usage_row usage_table_total(const struct usage_table *table)
{
    struct pen_usage_row total = {.tenant = "", .model = ""};
    for (size_t i = 0; i < table->count; i++) {
        add(&total, &table->rows[i]);
    }
    return total;
}

void usage_table_fini(struct usage_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        texts_free(&table->rows[i]);
    }
    free(table->rows);
    *table = (struct usage_table){.rows = NULL};
}
