/*
 * redis_route.h - the connections of one thread to all servers that a place names, and which of them has a key: one
 * server, the masters of a Redis Cluster, or the master that Sentinels name. Nothing here waits.
 *
 * Cluster: the map of slots comes from CLUSTER SLOTS, which is asked of the nodes in turn, at most ten times a second,
 * as long as a master is down or a question was sent elsewhere. Replicas get no connection: a seed that is one is asked
 * for the map alone. Sentinel: one Sentinel is asked, and listened to (+switch-master); while the master is down the
 * next ones are asked, twice a second.
 * Threads: one-at-a-time.
 */
#ifndef REDIS_ROUTE_H
#define REDIS_ROUTE_H

#include <zmq.h>

#include "redis_node.h"
#include "redis_slots.h"

#define REDIS_ROUTE_NODES 160u /* masters, those before them, seeds */
#define REDIS_ROUTE_POLLS (REDIS_ROUTE_NODES + 1u)

struct redis_route_user {
    void (*answer)(void *context, struct redis_node *node, struct redis_question *question, const redisReply *reply);
    /* A server is UP, or DOWN for its reason; NULL: only redis_route_reason is another. */
    void (*changed)(void *context, const struct redis_node *node);
};

struct redis_route;
/* place: borrowed. timeout_us: for an answer of a server that keeps keys. NULL: no memory. */
struct redis_route *redis_route_new(const struct redis_place *place, uint64_t timeout_us);
void redis_route_free(struct redis_route *route); /* what is in flight is told lost; NULL is fine */
void redis_route_listen(struct redis_route *route, const struct redis_route_user *user, void *context); /* before use */

/* The server that has the key; NULL: nobody can be asked for it now. */
struct redis_node *redis_route_node(struct redis_route *route, const char *key);
/* Some server that keeps keys and can be asked; NULL: there is none. */
struct redis_node *redis_route_any(struct redis_route *route);
/* Why there was none last. */
const char *redis_route_reason(const struct redis_route *route);
/* Where an error of that node sends its question; NULL: it is no redirection, or leads to nobody that can be asked now. */
struct redis_node *redis_route_redirected(struct redis_route *route, const struct redis_node *node, const char *error,
                                          uint64_t now_us, bool *ret_ask);

/* Fills items, which has room for REDIS_ROUTE_POLLS; their number. */
int redis_route_polls(struct redis_route *route, zmq_pollitem_t *items);
void redis_route_flush(struct redis_route *route, uint64_t now_us);
/* After the poll of exactly these items. */
void redis_route_turn(struct redis_route *route, const zmq_pollitem_t *items, int count, uint64_t now_us);
/* When to turn though nothing came; UINT64_MAX = never. */
uint64_t redis_route_due_us(struct redis_route *route, uint64_t now_us);

#endif
