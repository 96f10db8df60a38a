/*
 * table.h - an intrusive hash table: nodes live inside the records they find, so that a lookup table allocates nothing
 * per record.
 *
 * table_first and table_next yield the nodes with an equal 64-bit hash; the caller compares the keys. When a peer
 * chooses the key, its hash is mixed with the table's random seed, so that nobody can cause collisions on purpose.
 * Threads: one-at-a-time.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

struct table_node {
    struct table_node *next; /* in the overflow list */
    uint64_t hash;
};

/*
 * Open addressing. A search reads the tags (the low halves of the hashes) and touches a record only when its tag
 * matches: among a million records each touch waits for memory.
 */
struct table {
    uint32_t *tags;              /* of the slots; meaningless where a slot is empty */
    struct table_node **slots;   /* NULL = empty */
    struct table_node *overflow; /* nodes added when there was no memory to grow */
    size_t mask, count;          /* count: in slots */
    uint64_t seed;
};

#define table_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

enum pen_status table_init(struct table *table);
void table_fini(struct table *table); /* does not free the records */
/* Gives back memory after a burst, as far as memory for the smaller table allows. */
void table_settle(struct table *table);
uint64_t table_hash(const struct table *table, uint64_t a, uint64_t b);
void table_insert(struct table *table, struct table_node *node, uint64_t hash);
void table_remove(struct table *table, struct table_node *node);
struct table_node *table_first(const struct table *table, uint64_t hash);
/* The next of the same hash, or NULL. */
struct table_node *table_next(const struct table *table, const struct table_node *node);

#endif
