#include "redis_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "redis_slots.h"

#define ASK_TIMEOUT_US 250000u
#define REPLICATED_MS  1000

void redis_finder_init(struct redis_finder *finder, const struct redis_place *place)
{
    *finder = (struct redis_finder){.place = place, .at = place->seeds[0]};
    finder->known_count = place->seeds_count;
    memcpy(finder->known, place->seeds, sizeof place->seeds);
}

static void watch_end(struct redis_finder *finder)
{
    if (finder->watch)
        redisFree(finder->watch);
    finder->watch = NULL;
}

void redis_finder_fini(struct redis_finder *finder)
{
    watch_end(finder);
}

/* ---- Redis Cluster ---- */

/* The seeds stay; masters take the room behind them, the newest first. */
static void remember(struct redis_finder *finder, const struct redis_map *map)
{
    finder->known_count = finder->place->seeds_count;
    for (unsigned i = 0; i < map->masters_count && finder->known_count < REDIS_KNOWN_MAX; i++) {
        bool there = false;
        for (unsigned k = 0; k < finder->known_count; k++)
            there |= redis_address_equal(&finder->known[k], &map->masters[i]);
        if (!there)
            finder->known[finder->known_count++] = map->masters[i];
    }
}

/* The master of the slot, as that node sees it. */
static bool ask_node(struct redis_finder *finder, const struct redis_address *node, unsigned slot, char *reason,
                     size_t bytes)
{
    redisContext *redis = redis_open(finder->place, node, ASK_TIMEOUT_US, reason, bytes);
    struct redis_map *map = redis ? malloc(sizeof *map) : NULL;
    redisReply *reply = map ? redisCommand(redis, "CLUSTER SLOTS") : NULL;
    bool known = reply && redis_map_read(reply, node, map);
    bool owned = known && map->owner[slot] != REDIS_NOBODY;
    if (owned)
        finder->at = map->masters[map->owner[slot]];
    if (known)
        remember(finder, map);
    if (redis && !owned)
        snprintf(reason, bytes, "%.150s",
                 reply && reply->type == REDIS_REPLY_ERROR ? reply->str
                 : known                                   ? "no node of the cluster has this slot"
                 : reply                                   ? "no node of the cluster has any slot, or too many have"
                                                           : redis_reason(redis));
    freeReplyObject(reply);
    free(map);
    if (redis)
        redisFree(redis);
    return owned;
}

static bool find_in_cluster(struct redis_finder *finder, const char *key, char *reason, size_t bytes)
{
    unsigned slot = redis_slot(key, strlen(key));
    for (unsigned i = 0; i < finder->known_count; i++) {
        struct redis_address node = finder->known[(finder->turn + i) % finder->known_count];
        if (ask_node(finder, &node, slot, reason, bytes))
            return true;
    }
    return false;
}

/* ---- Sentinels ---- */

static bool is_master(redisContext *redis, char *reason, size_t bytes)
{
    redisReply *reply = redisCommand(redis, "ROLE");
    bool array = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->str;
    bool good = array && strcmp(reply->element[0]->str, "master") == 0;
    if (!good)
        snprintf(reason, bytes, "%s", array ? "the server that the Sentinels name is no master" : redis_reason(redis));
    freeReplyObject(reply);
    return good;
}

/* The connection goes on as the subscribed one. */
static bool ask_sentinel(struct redis_finder *finder, const struct redis_address *node, char *reason, size_t bytes)
{
    redisContext *redis = redis_open_sentinel(finder->place, node, ASK_TIMEOUT_US, reason, bytes);
    if (!redis)
        return false;
    redisReply *reply = redisCommand(redis, "SENTINEL get-master-addr-by-name %s", finder->place->master);
    bool known = reply && redis_master_read(reply, &finder->at);
    if (!known)
        snprintf(reason, bytes, "%.150s",
                 !reply                             ? redis_reason(redis)
                 : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                    : "the Sentinels know no master of that name");
    freeReplyObject(reply);
    watch_end(finder);
    if (known && redis_expect(redis, redisCommand(redis, "SUBSCRIBE +switch-master"), REDIS_REPLY_ARRAY, reason, bytes))
        finder->watch = redis;
    else
        redisFree(redis);
    return known;
}

static bool find_by_sentinels(struct redis_finder *finder, char *reason, size_t bytes)
{
    const struct redis_place *place = finder->place;
    for (unsigned i = 0; i < place->seeds_count; i++) {
        if (ask_sentinel(finder, &place->seeds[(finder->turn + i) % place->seeds_count], reason, bytes))
            return true;
    }
    return false;
}

int redis_finder_descriptor(const struct redis_finder *finder)
{
    return finder->watch ? finder->watch->fd : -1;
}

bool redis_finder_moved(struct redis_finder *finder)
{
    struct redis_address master;
    bool moved = false;
    void *reply = NULL;
    PEN_ASSERT(finder->watch, "only a channel that is subscribed says something");
    bool good = redisBufferRead(finder->watch) == REDIS_OK;
    while (good && (good = redisGetReplyFromReader(finder->watch, &reply) == REDIS_OK) && reply) {
        moved |= redis_switch_read(reply, finder->place->master, &master) && !redis_address_equal(&master, &finder->at);
        freeReplyObject(reply);
        reply = NULL;
    }
    if (!good)
        watch_end(finder); /* the next search subscribes again; until then connections that end are enough */
    return moved;
}

/* ---- all ---- */

redisContext *redis_find_again(struct redis_finder *finder, uint64_t timeout_us, char *reason, size_t bytes)
{
    return redis_open(finder->place, &finder->at, timeout_us, reason, bytes);
}

redisContext *redis_find(struct redis_finder *finder, const char *key, uint64_t timeout_us, char *reason, size_t bytes)
{
    enum redis_kind kind = finder->place->kind;
    bool found = kind == REDIS_CLUSTER    ? find_in_cluster(finder, key, reason, bytes)
                 : kind == REDIS_SENTINEL ? find_by_sentinels(finder, reason, bytes)
                                          : true;
    redisContext *redis = found ? redis_find_again(finder, timeout_us, reason, bytes) : NULL;
    if (redis && (kind != REDIS_SENTINEL || is_master(redis, reason, bytes)))
        return redis;
    if (redis)
        redisFree(redis);
    finder->turn++;
    return NULL;
}

bool redis_replicated(redisContext *redis, int replicas, char *reason, size_t bytes)
{
    redisReply *reply = redisCommand(redis, "WAIT %d %d", replicas, REPLICATED_MS);
    bool answered = reply && reply->type == REDIS_REPLY_INTEGER;
    bool good = answered && reply->integer >= replicas;
    if (answered && !good)
        snprintf(reason, bytes, "%lld of %d replicas have what was written (--redis-replicas)", reply->integer,
                 replicas);
    else if (!good)
        snprintf(reason, bytes, "%.150s", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : redis_reason(redis));
    freeReplyObject(reply);
    return good;
}
