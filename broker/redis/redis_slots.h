/*
 * redis_slots.h - which node of a Redis Cluster has which keys: hash slots, the answer to CLUSTER SLOTS, and the errors
 * MOVED and ASK. Also what Sentinels say about a master.
 *
 * Source of the formats: the cluster specification and the Sentinel page of redis.io. What a node says is checked and
 * bounded, and an answer that is not understood changes nothing. Threads: any (pure functions).
 */
#ifndef REDIS_SLOTS_H
#define REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

#define REDIS_SLOTS       16384u
#define REDIS_MASTERS_MAX 128u
#define REDIS_NOBODY      0xFFu

/* CRC16 (XMODEM) of the key, or of what is in its first {...} when that is not empty, modulo REDIS_SLOTS. */
unsigned redis_slot(const char *key, size_t bytes);

struct redis_map {
    struct redis_address masters[REDIS_MASTERS_MAX];
    unsigned masters_count;
    uint8_t owner[REDIS_SLOTS]; /* an index of masters, or REDIS_NOBODY */
};

/*
 * Reads the answer to CLUSTER SLOTS: masters and their slots; replicas are left out. asked: the node that answered,
 * whose host counts where the answer names none. False: it is no such answer, or names more than REDIS_MASTERS_MAX
 * masters; *ret_map is then of no use.
 */
bool redis_map_read(const redisReply *reply, const struct redis_address *asked, struct redis_map *ret_map);

struct redis_redirection {
    bool ask; /* only this question, with ASKING before it; else the slot has moved for good */
    unsigned slot;
    struct redis_address address;
};

/* "MOVED 3999 127.0.0.1:6381", "ASK ..."; false: it is another error. asked: as above. */
bool redis_redirection_read(const char *error, const struct redis_address *asked, struct redis_redirection *ret_to);

/* The answer to SENTINEL get-master-addr-by-name; false: the Sentinel does not know the master. */
bool redis_master_read(const redisReply *reply, struct redis_address *ret_master);
/* What a Sentinel says in the channel +switch-master: "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT", about that master. */
bool redis_switch_read(const redisReply *reply, const char *master, struct redis_address *ret_master);

#endif
