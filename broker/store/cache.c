#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_memory.h"
#include "cache_redis.h"
#include "frame.h"
#include "patch.h"

struct cache {
    enum cache_kind kind;
    uint64_t deadline_us;
    struct cache_memory *memory;
    struct cache_redis *redis;
};

/* ---- the option ---- */

static enum pen_status parse_error(const char *text, struct pen_error *reterr)
{
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "--cache %.200s is not understood; expected memory:<bytes> (as memory:64MiB), redis://host:port/db, "
        "cluster://host:port,host:port, sentinel://host:port,host:port/master or none",
        text);
}

static bool parse_bytes(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"", 1},        {"B", 1},          {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"K", 1024},
                 {"M", 1048576}, {"G", 1073741824}, {"KB", 1000},  {"MB", 1000000},  {"GB", 1000000000}};
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) == 0 && value <= (UINT64_MAX >> 1) / units[i].factor) {
            *ret_bytes = value * units[i].factor;
            return true;
        }
    }
    return false;
}

enum pen_status cache_parse(const char *text, struct cache_options *ret_options, struct pen_error *reterr)
{
    struct cache_options options = {.kind = CACHE_NONE};
    if (strcmp(text, "none") == 0) {
        *ret_options = options;
        return PEN_OK;
    }
    if (redis_place_is(text)) {
        struct pen_error error = {.status = PEN_OK};
        if (redis_place_parse(text, &options.redis, &error) != PEN_OK)
            return pen_error_set(reterr, error.status, "--cache %s", error.text);
        options.kind = CACHE_REDIS;
        *ret_options = options;
        return PEN_OK;
    }
    if (strncmp(text, "memory:", 7) == 0 && parse_bytes(text + 7, &options.bytes_max))
        options.kind = options.bytes_max ? CACHE_MEMORY : CACHE_NONE;
    else
        return parse_error(text, reterr);
    *ret_options = options;
    return PEN_OK;
}

/* ---- life ---- */

enum pen_status cache_new(void *context, const struct cache_options *options, struct cache **ret_cache,
                          struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the cache");
    cache->kind = options->kind;
    cache->deadline_us = options->deadline_us;
    if (cache->kind == CACHE_MEMORY)
        status = cache_memory_new(options->bytes_max, options->ttl_us, &cache->memory);
    else if (cache->kind == CACHE_REDIS)
        status = cache_redis_new(context, options, &cache->redis, reterr);
    if (status != PEN_OK) {
        free(cache);
        return reterr && reterr->status ? status : pen_error_set(reterr, status, "no memory for the cache");
    }
    *ret_cache = cache;
    return PEN_OK;
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    cache_memory_free(cache->memory);
    cache_redis_free(cache->redis);
    free(cache);
}

bool cache_enabled(const struct cache *cache)
{
    return cache && cache->kind != CACHE_NONE;
}

/* ---- use ---- */

enum cache_answer cache_get(struct cache *cache, const struct cache_key *key, const char *tenant, uint64_t now_us,
                            struct cache_value *ret_value, uint64_t *ret_question)
{
    if (cache->kind == CACHE_MEMORY)
        return cache_memory_get(cache->memory, key, now_us, ret_value) ? CACHE_HIT : CACHE_MISS;
    if (cache->kind == CACHE_REDIS)
        return cache_redis_ask(cache->redis, key, tenant, ret_question) ? CACHE_ASKED : CACHE_MISS;
    return CACHE_MISS;
}

void cache_put(struct cache *cache, const struct cache_key *key, const char *tenant, const struct cache_value *value,
               uint64_t now_us)
{
    if (!cache)
        return;
    if (cache->kind == CACHE_MEMORY)
        cache_memory_put(cache->memory, key, value, now_us);
    else if (cache->kind == CACHE_REDIS)
        cache_redis_put(cache->redis, key, tenant, value->shared);
}

enum pen_status cache_value_read(struct shared_message *shared, struct cache_value *ret_value)
{
    struct envelope env;
    struct result_facts facts;
    const uint8_t *meta;
    if (!shared_message_open(shared, &env, &meta) || env.type != FRAME_RESULT || env.frames + 1u != shared->count ||
        !result_read(meta, env.meta_bytes, &facts) || facts.backend_bytes >= CACHE_BACKEND_BYTES)
        return PEN_ERR_CORRUPT;
    *ret_value = (struct cache_value){.shared = shared};
    ret_value->error = facts.error_measured;
    ret_value->repeatable = facts.repeatable;
    ret_value->precision = facts.precision < PRECISION_COUNT ? (enum precision)facts.precision : PRECISION_ANY;
    ret_value->stored_unix_us = facts.stored_unix_us;
    if (facts.backend_bytes)
        memcpy(ret_value->backend, facts.backend, facts.backend_bytes);
    return PEN_OK;
}

bool cache_poll(struct cache *cache, uint64_t now_us, uint64_t *ret_question, bool *ret_hit,
                struct cache_value *ret_value)
{
    (void)now_us;
    return cache && cache->redis && cache_redis_poll(cache->redis, ret_question, ret_hit, ret_value);
}

void cache_give_up(struct cache *cache, uint64_t now_us)
{
    (void)now_us;
    if (cache && cache->redis)
        cache_redis_give_up(cache->redis);
}

void *cache_socket(struct cache *cache)
{
    return cache && cache->redis ? cache_redis_socket(cache->redis) : NULL;
}

uint64_t cache_deadline_us(const struct cache *cache)
{
    return cache ? cache->deadline_us : 0;
}

void cache_report(const struct cache *cache, struct cache_report *ret_report)
{
    *ret_report = (struct cache_report){.kind = "none", .state = "ok"};
    if (!cache)
        return;
    static const char *const kinds[] = {"none", "memory", "redis"};
    ret_report->kind = kinds[cache->kind];
    if (cache->memory)
        cache_memory_report(cache->memory, ret_report);
    if (cache->redis)
        cache_redis_report(cache->redis, ret_report);
}
