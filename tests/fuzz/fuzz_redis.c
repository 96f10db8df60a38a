/*
 * What a node of a Redis Cluster or a Sentinel may answer: any bytes are read by hiredis, and each reply as a map of
 * slots, a redirection, a master's address, a change of it; and as a place in Redis. What is taken lies within bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis_slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_address(const struct redis_address *address)
{
    size_t length = strnlen(address->host, sizeof address->host);
    check(length > 0 && length < sizeof address->host && address->port > 0 && address->port <= 65535);
}

static void read_reply(const redisReply *reply)
{
    static struct redis_map map;
    const struct redis_address asked = {"10.0.0.1", 7000};
    struct redis_redirection to;
    struct redis_address master;
    if (redis_map_read(reply, &asked, &map)) {
        check(map.masters_count > 0 && map.masters_count <= REDIS_MASTERS_MAX);
        for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
            check(map.owner[slot] == REDIS_NOBODY || map.owner[slot] < map.masters_count);
        for (unsigned i = 0; i < map.masters_count; i++)
            check_address(&map.masters[i]);
    }
    if (reply->type == REDIS_REPLY_ERROR && redis_redirection_read(reply->str, &asked, &to)) {
        check(to.slot < REDIS_SLOTS);
        check_address(&to.address);
    }
    if (redis_master_read(reply, &master))
        check_address(&master);
    if (redis_switch_read(reply, "pool", &master))
        check_address(&master);
}

static void read_place(const uint8_t *data, size_t size)
{
    char text[512];
    struct redis_place place = {.kind = REDIS_SINGLE};
    struct pen_error error = {.status = PEN_OK};
    size_t bytes = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (redis_place_parse(text, &place, &error) != PEN_OK) {
        check(error.text[0] != '\0');
        return;
    }
    check(place.seeds_count > 0 && place.seeds_count <= REDIS_SEEDS_MAX);
    for (unsigned i = 0; i < place.seeds_count; i++)
        check_address(&place.seeds[i]);
    check(redis_slot(text, bytes) < REDIS_SLOTS);
}

/* hiredis 0.14 takes room for as many elements as an array says it has, before any has come: not what is tried here. */
static bool has_long_array(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    bool array = false;
    for (size_t i = 0; i < size; i++) {
        bool digit = data[i] >= '0' && data[i] <= '9';
        digits = digit ? digits + 1 : 0;
        array = data[i] == '*' || (array && (digit || data[i] == '+'));
        if (array && digits > 5)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    read_place(data, size);
    if (!reader)
        abort();
    if (!has_long_array(data, size))
        redisReaderFeed(reader, (const char *)data, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        read_reply(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
