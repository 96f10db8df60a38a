/*
 * redis_place.h - where Redis is: one server, the nodes of a Redis Cluster, or the Sentinels that know the master; and
 * the user, password and certificates for it. Plain data.
 * Threads: any (pure functions).
 */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/status.h"

#define REDIS_SEEDS_MAX    8u
#define REDIS_ADDRESS_TEXT 272u

struct redis_address {
    char host[256];
    int port;
};

enum redis_kind { REDIS_SINGLE, REDIS_CLUSTER, REDIS_SENTINEL };

struct redis_place {
    enum redis_kind kind;
    struct redis_address seeds[REDIS_SEEDS_MAX]; /* the server; some nodes of the cluster; the Sentinels */
    unsigned seeds_count;
    char master[128]; /* SENTINEL: the name under which the Sentinels know it */
    int database;     /* CLUSTER: 0 */
    int replicas;     /* CLUSTER, SENTINEL: that must have a detached job or a label before it counts as kept */
    char user[128], password[256]; /* password "": none; user "": Redis' default one */
    const char
        *password_file; /* borrowed: read again for each connection, so that a password can be changed; NULL = none */
    bool tls;
    const char *ca, *certificate, *key; /* borrowed: PEM files; NULL or "" = the system's; none; in the certificate */
};

/* True when the text has the form SCHEME:// of a place in Redis; such a text is one for redis_place_parse. */
bool redis_place_is(const char *text);
/*
 * redis[s]://HOST[:PORT][/DB], cluster[s]://HOST[:PORT],..., sentinel[s]://HOST[:PORT],.../MASTER[/DB]. Leaves user,
 * password and files as they are. The sentence of an error begins with the text.
 */
enum pen_status redis_place_parse(const char *text, struct redis_place *place, struct pen_error *reterr);
/* How many replicas writes wait for; a single server is not asked for any. */
int redis_place_replicas(const struct redis_place *place);
/* "redis", "cluster" or "sentinel". */
const char *redis_kind_name(enum redis_kind kind);

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b);
/* HOST:PORT, with IPv6 hosts in brackets or without. False: it is none. port: when the text names none; 0: it must. */
bool redis_address_parse(const char *text, size_t bytes, int port, struct redis_address *ret_address);

/* A file of one line, "PASSWORD" or "USER PASSWORD", that only its owner may read. */
enum pen_status redis_password_read(const char *path, struct redis_place *place, struct pen_error *reterr);

#endif
