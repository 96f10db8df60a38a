/*
 * table.h - an intrusive hash table: nodes live inside the records they find, so that a lookup table allocates nothing per record.
 *
 * The caller compares keys: walk table_first / table_next, which yield the nodes of an equal 64-bit hash. Hashes of what a peer chooses are
 * mixed with the table's random seed, so that nobody can aim collisions at it.
 * Threads: one-at-a-time.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

struct table_node {
    struct table_node *next; /* of the overflow */
    uint64_t hash;
};

/*
 * Open addressing: a search reads tags, the low halves of hashes, and touches a record only when its tag is the one sought: with a million records each one
 * touched is a wait for memory.
 */
struct table {
    uint32_t *tags;              /* of the slots; meaningless where a slot is empty */
    struct table_node **slots;   /* NULL = empty */
    struct table_node *overflow; /* what came when there was no memory to grow */
    size_t mask, count;          /* count: in slots */
    uint64_t seed;
};

#define table_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

enum pen_status table_init(struct table *table);
void table_fini(struct table *table); /* the records stay their owners' */
/* Gives back room that a burst has left, as far as memory allows. */
void table_settle(struct table *table);
uint64_t table_hash(const struct table *table, uint64_t a, uint64_t b);
void table_insert(struct table *table, struct table_node *node, uint64_t hash);
void table_remove(struct table *table, struct table_node *node);
struct table_node *table_first(const struct table *table, uint64_t hash);
/* The next of the same hash, or NULL. */
struct table_node *table_next(const struct table *table, const struct table_node *node);

#endif
