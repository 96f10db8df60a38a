#include "cache_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "assertion.h"
#include "table.h"

struct cache_entry {
    struct table_node by_key;
    TAILQ_ENTRY(cache_entry) in_use;
    struct cache_key key;
    struct cache_value value;
    uint64_t stored_us;
};
TAILQ_HEAD(entry_list, cache_entry);

struct cache_memory {
    struct table by_key;
    struct entry_list use; /* used longest ago first */
    uint64_t bytes, bytes_max, ttl_us, entries, evicted;
};

enum pen_status cache_memory_new(uint64_t bytes_max, uint64_t ttl_us, struct cache_memory **ret_memory)
{
    struct cache_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return PEN_ERR_NO_MEMORY;
    memory->bytes_max = bytes_max;
    memory->ttl_us = ttl_us;
    TAILQ_INIT(&memory->use);
    if (table_init(&memory->by_key) != PEN_OK) {
        free(memory);
        return PEN_ERR_NO_MEMORY;
    }
    *ret_memory = memory;
    return PEN_OK;
}

static uint64_t cost(const struct cache_value *value)
{
    return shared_message_bytes(value->shared) + sizeof(struct cache_entry) + value->shared->count * sizeof(zmq_msg_t);
}

static void drop(struct cache_memory *memory, struct cache_entry *entry)
{
    table_remove(&memory->by_key, &entry->by_key);
    TAILQ_REMOVE(&memory->use, entry, in_use);
    PEN_ASSERT(memory->entries > 0 && memory->bytes >= cost(&entry->value),
               "a value that goes was counted, with its bytes");
    memory->bytes -= cost(&entry->value);
    memory->entries--;
    PEN_ASSERT((memory->entries == 0) == (memory->bytes == 0), "without values there are no bytes of them");
    shared_message_release(entry->value.shared);
    free(entry);
}

void cache_memory_free(struct cache_memory *memory)
{
    if (!memory)
        return;
    while (!TAILQ_EMPTY(&memory->use))
        drop(memory, TAILQ_FIRST(&memory->use));
    table_fini(&memory->by_key);
    free(memory);
}

static uint64_t hash_of(const struct cache_memory *memory, const struct cache_key *key)
{
    return table_hash(&memory->by_key, cache_key_half(key, 0), cache_key_half(key, 1));
}

static struct cache_entry *find(const struct cache_memory *memory, const struct cache_key *key)
{
    struct table_node *node = table_first(&memory->by_key, hash_of(memory, key));
    for (; node; node = table_next(&memory->by_key, node)) {
        struct cache_entry *entry = table_entry(node, struct cache_entry, by_key);
        if (cache_key_equal(&entry->key, key))
            return entry;
    }
    return NULL;
}

bool cache_memory_get(struct cache_memory *memory, const struct cache_key *key, uint64_t now_us,
                      struct cache_value *ret_value)
{
    struct cache_entry *entry = find(memory, key);
    if (!entry)
        return false;
    if (memory->ttl_us && now_us - entry->stored_us >= memory->ttl_us) {
        drop(memory, entry);
        return false;
    }
    TAILQ_REMOVE(&memory->use, entry, in_use);
    TAILQ_INSERT_TAIL(&memory->use, entry, in_use);
    *ret_value = entry->value;
    ret_value->age_us = now_us - entry->stored_us;
    return true;
}

void cache_memory_put(struct cache_memory *memory, const struct cache_key *key, const struct cache_value *value,
                      uint64_t now_us)
{
    struct cache_entry *old = find(memory, key);
    if (old)
        drop(memory, old);
    if (cost(value) > memory->bytes_max / 4)
        return;
    struct cache_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return;
    *entry = (struct cache_entry){.key = *key, .value = *value, .stored_us = now_us};
    shared_message_retain(value->shared);
    table_insert(&memory->by_key, &entry->by_key, hash_of(memory, key));
    TAILQ_INSERT_TAIL(&memory->use, entry, in_use);
    memory->bytes += cost(value);
    memory->entries++;
    while (memory->bytes > memory->bytes_max) {
        drop(memory, TAILQ_FIRST(&memory->use));
        memory->evicted++;
    }
    PEN_ASSERT(memory->bytes <= memory->bytes_max, "the cache holds no more bytes than it may");
}

void cache_memory_report(const struct cache_memory *memory, struct cache_report *report)
{
    report->bytes = memory->bytes;
    report->entries = memory->entries;
    report->evicted = memory->evicted;
}
