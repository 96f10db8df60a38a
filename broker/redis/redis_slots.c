#include "redis_slots.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "assertion.h"

/* ---- slots ---- */

/* CRC-16/XMODEM: polynomial 0x1021, begins with 0; four bits at a time. */
static unsigned crc16(const char *bytes, size_t count)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned byte = (unsigned char)bytes[i];
        crc = (crc << 4 & 0xFFFFu) ^ table[crc >> 12 ^ byte >> 4];
        crc = (crc << 4 & 0xFFFFu) ^ table[crc >> 12 ^ (byte & 15u)];
    }
    return crc;
}

unsigned redis_slot(const char *key, size_t bytes)
{
    const char *open = memchr(key, '{', bytes);
    const char *close = open ? memchr(open + 1, '}', bytes - (size_t)(open + 1 - key)) : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOTS;
    return crc16(key, bytes) % REDIS_SLOTS;
}

/* ---- the map ---- */

static bool is_number(const redisReply *reply, long long least, long long most)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* The host that a node goes by: a text, or, where it is empty or nil, that of the node that was asked. A '?' says that
   the node has no name to be reached under. */
static bool read_host(const redisReply *reply, const struct redis_address *asked, char host[256])
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    if (reply->type == REDIS_REPLY_NIL || (text && reply->len == 0)) {
        memcpy(host, asked->host, sizeof asked->host);
        return true;
    }
    if (!text || reply->len >= sizeof asked->host || memchr(reply->str, '\0', (size_t)reply->len) ||
        strcmp(reply->str, "?") == 0)
        return false;
    memcpy(host, reply->str, (size_t)reply->len + 1);
    return true;
}

/* An index of masters; REDIS_NOBODY: there is no room for one more. */
static unsigned map_master(struct redis_map *map, const struct redis_address *address)
{
    for (unsigned i = 0; i < map->masters_count; i++) {
        if (redis_address_equal(&map->masters[i], address))
            return i;
    }
    if (map->masters_count == REDIS_MASTERS_MAX)
        return REDIS_NOBODY;
    map->masters[map->masters_count] = *address;
    return map->masters_count++;
}

/* [first, last, [host, port, ...] of the master, replicas...] */
static bool read_row(const redisReply *row, const struct redis_address *asked, struct redis_map *map)
{
    struct redis_address address = {.port = 0};
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || !is_number(row->element[0], 0, REDIS_SLOTS - 1) ||
        !is_number(row->element[1], row->element[0]->integer, REDIS_SLOTS - 1))
        return false;
    const redisReply *master = row->element[2];
    if (master->type != REDIS_REPLY_ARRAY || master->elements < 2 || !is_number(master->element[1], 0, 65535))
        return false;
    if (!read_host(master->element[0], asked, address.host) || master->element[1]->integer == 0)
        return true; /* nobody can be asked for these slots */
    address.port = (int)master->element[1]->integer;
    unsigned owner = map_master(map, &address);
    size_t first = (size_t)row->element[0]->integer, last = (size_t)row->element[1]->integer;
    memset(map->owner + first, (int)owner, last - first + 1);
    return owner != REDIS_NOBODY;
}

bool redis_map_read(const redisReply *reply, const struct redis_address *asked, struct redis_map *ret_map)
{
    _Static_assert(REDIS_MASTERS_MAX < REDIS_NOBODY, "an owner is one byte");
    ret_map->masters_count = 0;
    memset(ret_map->owner, REDIS_NOBODY, sizeof ret_map->owner);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > REDIS_SLOTS)
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        if (!read_row(reply->element[i], asked, ret_map))
            return false;
    }
    PEN_ASSERT(ret_map->masters_count <= REDIS_MASTERS_MAX, "a map has room for its masters");
    return ret_map->masters_count > 0;
}

/* ---- redirections ---- */

bool redis_redirection_read(const char *error, const struct redis_address *asked, struct redis_redirection *ret_to)
{
    struct redis_redirection to = {.ask = strncmp(error, "ASK ", 4) == 0};
    char *end;
    if (!to.ask && strncmp(error, "MOVED ", 6) != 0)
        return false;
    const char *number = strchr(error, ' ') + 1;
    unsigned long slot = strtoul(number, &end, 10);
    if (*number < '0' || *number > '9' || *end != ' ' || slot >= REDIS_SLOTS)
        return false;
    char text[REDIS_ADDRESS_TEXT];
    const char *address = end + 1;
    size_t length = strcspn(address, " \r\n");
    if (*address == ':' && !memchr(address + 1, ':', length - 1)) { /* the node that answers has the same host */
        int bytes = snprintf(text, sizeof text, "[%s]%.*s", asked->host, (int)(length < 8 ? length : 8), address);
        address = text;
        length = (size_t)bytes < sizeof text ? (size_t)bytes : 0;
    }
    to.slot = (unsigned)slot;
    if (!redis_address_parse(address, length, 0, &to.address))
        return false;
    *ret_to = to;
    return true;
}

/* ---- Sentinels ---- */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

static bool read_master(const char *host, size_t host_bytes, const char *port, struct redis_address *ret_master)
{
    struct redis_address master = {.port = atoi(port)};
    if (host_bytes == 0 || host_bytes >= sizeof master.host || master.port < 1 || master.port > 65535)
        return false;
    memcpy(master.host, host, host_bytes);
    *ret_master = master;
    return strlen(master.host) == host_bytes;
}

bool redis_master_read(const redisReply *reply, struct redis_address *ret_master)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[0]) &&
           is_text(reply->element[1]) &&
           read_master(reply->element[0]->str, (size_t)reply->element[0]->len, reply->element[1]->str, ret_master);
}

bool redis_switch_read(const redisReply *reply, const char *master, struct redis_address *ret_master)
{
    char name[128], host[256], port[16];
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !is_text(reply->element[0]) ||
        !is_text(reply->element[2]) || strcmp(reply->element[0]->str, "message") != 0)
        return false;
    return sscanf(reply->element[2]->str, "%127s %*255s %*15s %255s %15s", name, host, port) == 3 &&
           strcmp(name, master) == 0 && read_master(host, strlen(host), port, ret_master);
}
