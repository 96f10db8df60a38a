/*
 * usage_table.h - rows of usage that are added up: those that agree in what is asked for become one.
 *
 * Threads: owner.
 */
#ifndef USAGE_TABLE_H
#define USAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/client.h"

#define USAGE_TABLE_MAX ((size_t)1 << 20) /* rows, once they are added up */

/* What is told apart; the rest is added up. */
enum { USAGE_BY_HOUR = 1, USAGE_BY_TENANT = 2, USAGE_BY_MODEL = 4 };

struct usage_table {
    struct pen_usage_row *rows; /* texts are the table's own */
    size_t count, room;
    unsigned by;
};

/* "tenant,model" -> bits; false: an unknown word. */
bool usage_by(const char *words, unsigned *ret_by);

/* False: no memory, or more than USAGE_TABLE_MAX rows differ. */
bool usage_table_add(struct usage_table *table, const struct pen_usage_row *row);
/* Adds up and sorts: by hour, tenant, model and version. */
void usage_table_settle(struct usage_table *table);
struct pen_usage_row usage_table_total(const struct usage_table *table);
void usage_table_fini(struct usage_table *table);

#endif
