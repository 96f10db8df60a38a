#include "table.h"

#include <stdlib.h>

#include "assertion.h"
#include "job_id.h"

#define FIRST_SLOTS 64u

/* Room for `slots` records and their tags in one block; tags lie behind. */
static enum pen_status room_new(struct table *table, size_t slots)
{
    struct table_node **block = calloc(slots, sizeof *block + sizeof *table->tags);
    if (!block)
        return PEN_ERR_NO_MEMORY;
    table->slots = block;
    table->tags = (uint32_t *)(void *)(block + slots);
    table->mask = slots - 1;
    return PEN_OK;
}

enum pen_status table_init(struct table *table)
{
    *table = (struct table){.seed = random_u64()};
    return room_new(table, FIRST_SLOTS);
}

void table_fini(struct table *table)
{
    free(table->slots);
    table->slots = NULL;
    table->tags = NULL;
    table->overflow = NULL;
    table->count = 0;
}

/* Two rounds of multiply and fold; the seed keeps the result unknown to peers. */
uint64_t table_hash(const struct table *table, uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ table->seed) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h = (h ^ b ^ (table->seed >> 17)) * 0xD6E8FEB86659FD93u;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ (h >> 32);
}

static void place(struct table *table, struct table_node *node)
{
    size_t at = node->hash & table->mask;
    while (table->slots[at])
        at = (at + 1) & table->mask;
    table->slots[at] = node;
    table->tags[at] = (uint32_t)node->hash;
}

/* Doubling in one go: 20 ms at a million records, reached 20 doublings after the start. */
static void grow(struct table *table)
{
    struct table old = *table;
    if (old.mask >= UINT32_MAX || room_new(table, (old.mask + 1) * 2) != PEN_OK)
        return;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.slots[i])
            place(table, old.slots[i]);
    free(old.slots);
}

void table_settle(struct table *table)
{
    struct table old = *table;
    size_t slots = FIRST_SLOTS;
    while (slots <= old.mask && old.count >= (slots - 1) / 5 * 4)
        slots *= 2;
    if (slots > old.mask || old.overflow || room_new(table, slots) != PEN_OK)
        return;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.slots[i])
            place(table, old.slots[i]);
    free(old.slots);
}

/* The slot of the node, or an empty one. */
static size_t slot_of(const struct table *table, const struct table_node *node)
{
    size_t at = node->hash & table->mask;
    while (table->slots[at] && table->slots[at] != node)
        at = (at + 1) & table->mask;
    return at;
}

/* From this slot to the next empty one, each record is where a search for it ends. */
static bool run_is_sound(const struct table *table, size_t at)
{
    for (size_t i = 0; i < 64 && table->slots[at]; i++, at = (at + 1) & table->mask)
        if (slot_of(table, table->slots[at]) != at || table->tags[at] != (uint32_t)table->slots[at]->hash)
            return false;
    return true;
}

void table_insert(struct table *table, struct table_node *node, uint64_t hash)
{
    node->hash = hash;
    node->next = NULL;
    if (table->count >= table->mask / 5 * 4)
        grow(table);
    if (table->count < table->mask) { /* one slot stays empty: searches end there */
        place(table, node);
        table->count++;
        PEN_ASSERT(table->count <= table->mask, "one slot of a table stays empty, so that searches end");
        PEN_ASSERT_SLOW(run_is_sound(table, slot_of(table, node)), "a search for what is in a table finds it");
        return;
    }
    node->next = table->overflow;
    table->overflow = node;
}

/* Closes the gap: a record behind it that may be there moves up. The low half of a hash tells a record's home slot
   as long as mask fits in it. */
static void close_gap(struct table *table, size_t gap)
{
    for (size_t at = (gap + 1) & table->mask; table->slots[at]; at = (at + 1) & table->mask) {
        size_t home = table->tags[at] & table->mask;
        if (((at - home) & table->mask) < ((at - gap) & table->mask))
            continue;
        table->slots[gap] = table->slots[at];
        table->tags[gap] = table->tags[at];
        gap = at;
    }
    table->slots[gap] = NULL;
}

void table_remove(struct table *table, struct table_node *node)
{
    size_t at = slot_of(table, node);
    if (table->slots[at]) {
        PEN_ASSERT(table->count > 0, "what leaves a table has been counted");
        close_gap(table, at);
        table->count--;
        PEN_ASSERT_SLOW(run_is_sound(table, at), "a search for what is in a table finds it");
        return;
    }
    struct table_node **link = &table->overflow;
    while (*link && *link != node)
        link = &(*link)->next;
    PEN_ASSERT(*link == node, "what leaves a table is in it");
    *link = node->next;
}

static struct table_node *overflow_find(struct table_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

static struct table_node *find_from(const struct table *table, size_t at, uint64_t hash)
{
    for (; table->slots[at]; at = (at + 1) & table->mask)
        if (table->tags[at] == (uint32_t)hash && table->slots[at]->hash == hash)
            return table->slots[at];
    return overflow_find(table->overflow, hash);
}

struct table_node *table_first(const struct table *table, uint64_t hash)
{
    return find_from(table, hash & table->mask, hash);
}

struct table_node *table_next(const struct table *table, const struct table_node *node)
{
    size_t at = slot_of(table, node);
    if (table->slots[at])
        return find_from(table, (at + 1) & table->mask, node->hash);
    return overflow_find(node->next, node->hash);
}
