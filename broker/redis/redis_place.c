#include "redis_place.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "redis_tls.h"

#define REDIS_PORT    6379
#define SENTINEL_PORT 26379
#define PORT_MAX      65535
#define DATABASE_MAX  1000000

static const struct scheme {
    const char *name;
    enum redis_kind kind;
    bool tls;
} schemes[] = {{"redis://", REDIS_SINGLE, false},      {"rediss://", REDIS_SINGLE, true},
               {"cluster://", REDIS_CLUSTER, false},   {"clusters://", REDIS_CLUSTER, true},
               {"sentinel://", REDIS_SENTINEL, false}, {"sentinels://", REDIS_SENTINEL, true}};

static const struct scheme *scheme_of(const char *text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(text, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    }
    return NULL;
}

bool redis_place_is(const char *text)
{
    return scheme_of(text) != NULL;
}

int redis_place_replicas(const struct redis_place *place)
{
    return place->kind == REDIS_SINGLE ? 0 : place->replicas;
}

const char *redis_kind_name(enum redis_kind kind)
{
    static const char *const names[] = {"redis", "cluster", "sentinel"};
    return names[kind];
}

/* ---- addresses ---- */

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

static bool parse_number(const char *text, size_t bytes, long max, int *ret_value)
{
    long value = 0;
    if (bytes == 0 || bytes > 9)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (text[i] - '0');
    }
    *ret_value = (int)value;
    return value <= max;
}

/* Where the port begins; NULL: there is none. In brackets, or with one colon alone, an IPv6 host has none either. */
static const char *colon_of(const char *text, size_t bytes)
{
    const char *end = text + bytes, *colon = NULL;
    for (const char *at = text; at < end; at++)
        colon = *at == ':' ? at : colon;
    return colon && memchr(colon, ']', (size_t)(end - colon)) ? NULL : colon;
}

bool redis_address_parse(const char *text, size_t bytes, int port, struct redis_address *ret_address)
{
    const char *colon = colon_of(text, bytes);
    size_t host_bytes = colon ? (size_t)(colon - text) : bytes;
    if (colon ? !parse_number(colon + 1, bytes - host_bytes - 1, PORT_MAX, &port) : port == 0)
        return false;
    if (host_bytes > 2 && text[0] == '[' && text[host_bytes - 1] == ']') {
        text++;
        host_bytes -= 2;
    }
    if (host_bytes == 0 || host_bytes >= sizeof ret_address->host || memchr(text, '\0', host_bytes))
        return false;
    *ret_address = (struct redis_address){.port = port};
    memcpy(ret_address->host, text, host_bytes);
    return port > 0;
}

/* ---- places ---- */

static enum pen_status not_understood(const char *text, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%.200s is not understood; expected redis://host:port/db, cluster://host:port,host:port or "
                         "sentinel://host:port,host:port/master (with TLS: rediss, clusters, sentinels)",
                         text);
}

static enum pen_status parse_seeds(const char *text, const char *list, struct redis_place *place,
                                   struct pen_error *reterr)
{
    int port = place->kind == REDIS_SENTINEL ? SENTINEL_PORT : REDIS_PORT;
    for (bool more = true; more;) {
        size_t length = strcspn(list, ",/");
        if (place->kind == REDIS_SINGLE && list[length] == ',')
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "%.200s names several servers; a Redis Cluster is cluster://, a master that Sentinels "
                                 "watch is sentinel://",
                                 text);
        if (place->seeds_count == REDIS_SEEDS_MAX)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "%.200s names more than %u servers; some of them are enough to find the others", text,
                                 REDIS_SEEDS_MAX);
        if (!redis_address_parse(list, length, port, &place->seeds[place->seeds_count]))
            return not_understood(text, reterr);
        place->seeds_count++;
        more = list[length] == ',';
        list += length + 1;
    }
    return PEN_OK;
}

/* What is behind the first '/': [DB], nothing, or MASTER[/DB]. */
static enum pen_status parse_path(const char *text, const char *path, struct redis_place *place,
                                  struct pen_error *reterr)
{
    if (place->kind == REDIS_SENTINEL) {
        size_t length = path ? strcspn(path, "/") : 0;
        if (length == 0 || length >= sizeof place->master || strpbrk(path, " \t"))
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "%.200s: the name of the master is missing, as in sentinel://host:26379/mymaster",
                                 text);
        memcpy(place->master, path, length);
        place->master[length] = '\0';
        path = path[length] ? path + length + 1 : NULL;
    }
    if (path && *path && !parse_number(path, strlen(path), DATABASE_MAX, &place->database))
        return not_understood(text, reterr);
    if (place->kind == REDIS_CLUSTER && place->database != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%.200s: Redis Cluster has no databases; leave /%d out", text,
                             place->database);
    return PEN_OK;
}

enum pen_status redis_place_parse(const char *text, struct redis_place *place, struct pen_error *reterr)
{
    const struct scheme *scheme = scheme_of(text);
    if (!scheme)
        return not_understood(text, reterr);
    if (strchr(text, '@'))
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "%s... takes no password: everybody who lists processes would see it; use --redis-password-file",
            scheme->name); /* so the text is not said again */
    if (scheme->tls && !redis_tls_built())
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%.200s: this build has no TLS to Redis, because its hiredis has none (Debian 12: 0.14); "
                             "use a tunnel (deploy/redis/stunnel.conf, a VPN) to a loopback redis://, or Redis on this "
                             "machine",
                             text);
    const char *list = text + strlen(scheme->name), *slash = strchr(list, '/');
    place->kind = scheme->kind;
    place->tls = scheme->tls;
    place->seeds_count = 0;
    place->database = 0;
    place->master[0] = '\0';
    enum pen_status status = parse_seeds(text, list, place, reterr);
    return status == PEN_OK ? parse_path(text, slash ? slash + 1 : NULL, place, reterr) : status;
}
