#include "redis_route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"

#define MAP_US          100000u   /* between two questions for the map */
#define NAME_US         500000u   /* between two questions for the master while it is down */
#define ASKED_US        10000000u /* a node that ASK led to is kept for so long */
#define SINGLE_AGAIN_US 1000000u

struct routed {
    struct redis_node node;
    bool owns, seed;
    uint64_t wanted_until_us;
};

struct redis_route {
    const struct redis_place *place;
    const struct redis_route_user *user;
    void *context;
    uint64_t timeout_us;
    struct routed *nodes[REDIS_ROUTE_NODES]; /* NULL = free */
    uint8_t owner[REDIS_SLOTS];              /* an index of nodes, or REDIS_NOBODY */
    struct redis_node *polled[REDIS_ROUTE_POLLS];
    /* Cluster */
    struct redis_map map; /* the last answer */
    struct redis_question map_question;
    bool map_asked, mapped, stale;
    uint64_t map_us; /* no question for the map before */
    unsigned turn;   /* who is asked next */
    /* Sentinel */
    struct redis_node sentinels[REDIS_SEEDS_MAX];
    struct redis_question name_question;
    unsigned sentinel; /* the one that is used */
    uint64_t name_us;  /* no further question for the master before */
    char reason[REDIS_REASON_BYTES];
};

static const struct redis_node_user node_user, sentinel_user;

/* ---- the table of nodes ---- */

static unsigned node_find(const struct redis_route *route, const struct redis_address *address)
{
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        if (route->nodes[i] && redis_address_equal(&route->nodes[i]->node.address, address))
            return i;
    }
    return REDIS_NOBODY;
}

/* Finds it or makes it; REDIS_NOBODY: no room or no memory. */
static unsigned node_make(struct redis_route *route, const struct redis_address *address)
{
    _Static_assert(REDIS_ROUTE_NODES < REDIS_NOBODY, "an owner is one byte");
    static const enum redis_node_task tasks[] = {REDIS_TASK_KEYS, REDIS_TASK_KEYS, REDIS_TASK_MASTER};
    unsigned index = node_find(route, address);
    for (unsigned i = 0; index == REDIS_NOBODY && i < REDIS_ROUTE_NODES; i++)
        index = route->nodes[i] ? REDIS_NOBODY : i;
    if (index == REDIS_NOBODY || route->nodes[index])
        return index;
    struct routed *routed = calloc(1, sizeof *routed);
    if (!routed)
        return REDIS_NOBODY;
    redis_node_init(&routed->node, address, tasks[route->place->kind], &node_user, route);
    routed->node.timeout_us = route->timeout_us;
    routed->node.prompt = route->place->kind != REDIS_SINGLE;
    if (route->place->kind == REDIS_SINGLE)
        routed->node.retry_after_us = SINGLE_AGAIN_US;
    route->nodes[index] = routed;
    return index;
}

static void node_drop(struct redis_route *route, unsigned index, uint64_t now_us)
{
    struct routed *routed = route->nodes[index];
    PEN_ASSERT(!routed->owns, "a node that keeps slots stays");
    redis_node_close(&routed->node, NULL, now_us);
    if (routed->seed)
        return;
    route->nodes[index] = NULL;
    free(routed);
}

static void owners_count(struct redis_route *route)
{
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        if (route->nodes[i])
            route->nodes[i]->owns = false;
    }
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++) {
        if (route->owner[slot] != REDIS_NOBODY)
            route->nodes[route->owner[slot]]->owns = true;
    }
}

static bool is_up(const struct routed *routed)
{
    return routed && routed->node.state == REDIS_NODE_UP;
}

/* Some master cannot be asked: the map may know another one soon. */
static bool owner_down(const struct redis_route *route)
{
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        if (route->nodes[i] && route->nodes[i]->owns && !is_up(route->nodes[i]))
            return true;
    }
    return false;
}

/* ---- Redis Cluster ---- */

static void map_take(struct redis_route *route)
{
    uint8_t index[REDIS_MASTERS_MAX];
    for (unsigned i = 0; i < route->map.masters_count; i++)
        index[i] = (uint8_t)node_make(route, &route->map.masters[i]);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        route->owner[slot] =
            route->map.owner[slot] == REDIS_NOBODY ? (uint8_t)REDIS_NOBODY : index[route->map.owner[slot]];
    owners_count(route);
    route->mapped = true;
    route->stale = false;
}

static void map_hear(struct redis_route *route, const struct redis_node *node, const redisReply *reply)
{
    route->map_asked = false;
    if (reply && redis_map_read(reply, &node->address, &route->map))
        map_take(route);
    else if (reply)
        snprintf(route->reason, sizeof route->reason, "%.90s",
                 reply->type == REDIS_REPLY_ERROR ? reply->str
                                                  : "no node of the cluster has any slot, or too many have");
}

static bool map_wanted(const struct redis_route *route)
{
    return route->place->kind == REDIS_CLUSTER && !route->map_asked &&
           (!route->mapped || route->stale || owner_down(route));
}

/* Asks the nodes in turn, so that one with an old map misleads but once. */
static void map_ask(struct redis_route *route, uint64_t now_us)
{
    static const char *const words[] = {"CLUSTER", "SLOTS"};
    static const size_t bytes[] = {7, 5};
    for (unsigned i = 0; i < REDIS_ROUTE_NODES && !route->map_asked; i++) {
        struct routed *routed = route->nodes[route->turn++ % REDIS_ROUTE_NODES];
        route->map_asked =
            is_up(routed) && redis_node_ask(&routed->node, &route->map_question, false, 2, words, bytes, now_us);
    }
    route->map_us = now_us + MAP_US;
}

/* ---- Sentinels ---- */

static void master_take(struct redis_route *route, const struct redis_address *address, uint64_t now_us)
{
    unsigned index = node_make(route, address);
    if (index == REDIS_NOBODY)
        return;
    memset(route->owner, (int)index, sizeof route->owner);
    owners_count(route);
    route->nodes[index]->node.retry_us = is_up(route->nodes[index]) ? route->nodes[index]->node.retry_us : now_us;
}

static void reason_set(struct redis_route *route, const char *reason)
{
    snprintf(route->reason, sizeof route->reason, "%.90s", reason);
    route->user->changed(route->context, NULL);
}

static void sentinel_ask(struct redis_route *route, struct redis_node *node, uint64_t now_us)
{
    const char *const words[] = {"SENTINEL", "get-master-addr-by-name", route->place->master};
    const size_t bytes[] = {8, strlen(words[1]), strlen(words[2])};
    route->name_us = now_us + NAME_US;
    redis_node_ask(node, &route->name_question, false, 3, words, bytes, now_us);
}

static void sentinel_answer(void *context, struct redis_node *node, struct redis_question *question,
                            const redisReply *reply)
{
    static const char *const words[] = {"SUBSCRIBE", "+switch-master"};
    static const size_t bytes[] = {9, 14};
    struct redis_route *route = context;
    struct redis_address master;
    PEN_ASSERT(question == &route->name_question, "a Sentinel is asked for the master alone");
    if (!reply)
        return;
    uint64_t now_us = node->active_us;
    if (redis_master_read(reply, &master)) {
        master_take(route, &master, now_us);
        redis_node_ask(node, NULL, false, 2, words, bytes, now_us);
    } else {
        reason_set(route, reply->type == REDIS_REPLY_ERROR ? reply->str : "the Sentinels know no master of that name");
    }
}

static void sentinel_unasked(void *context, struct redis_node *node, const redisReply *reply)
{
    struct redis_route *route = context;
    struct redis_address master;
    if (redis_switch_read(reply, route->place->master, &master))
        master_take(route, &master, node->active_us);
}

static void sentinel_changed(void *context, struct redis_node *node)
{
    struct redis_route *route = context;
    if (node->state == REDIS_NODE_UP)
        sentinel_ask(route, node, node->active_us);
    else
        reason_set(route, node->reason);
}

static const struct redis_node_user sentinel_user = {sentinel_answer, sentinel_unasked, sentinel_changed};

/* While the master is down, or nobody knows it, each Sentinel is asked in its turn. */
static void sentinels_look(struct redis_route *route, uint64_t now_us)
{
    struct redis_node *node = &route->sentinels[route->sentinel];
    bool wanted = redis_route_any(route) == NULL && now_us >= route->name_us;
    if (node->state == REDIS_NODE_UP && wanted) {
        redis_node_close(node, NULL, now_us);
        route->name_us = now_us + NAME_US;
    }
    if (node->state != REDIS_NODE_DOWN)
        return;
    if (now_us < node->retry_us) {
        route->sentinel = (route->sentinel + 1) % route->place->seeds_count;
        node = &route->sentinels[route->sentinel];
    }
    if (node->state == REDIS_NODE_DOWN && now_us >= node->retry_us)
        redis_node_begin(node, route->place, now_us);
}

/* ---- life ---- */

static void node_answer(void *context, struct redis_node *node, struct redis_question *question,
                        const redisReply *reply)
{
    struct redis_route *route = context;
    if (question == &route->map_question)
        map_hear(route, node, reply);
    else
        route->user->answer(route->context, node, question, reply);
}

static void node_changed(void *context, struct redis_node *node)
{
    struct redis_route *route = context;
    if (node->state == REDIS_NODE_DOWN)
        snprintf(route->reason, sizeof route->reason, "%s", node->reason);
    else if (!route->mapped)
        route->map_us = 0;
    route->user->changed(route->context, node);
}

static const struct redis_node_user node_user = {node_answer, NULL, node_changed};

struct redis_route *redis_route_new(const struct redis_place *place, uint64_t timeout_us)
{
    struct redis_route *route = calloc(1, sizeof *route);
    if (!route)
        return NULL;
    route->place = place;
    route->timeout_us = timeout_us;
    memset(route->owner, REDIS_NOBODY, sizeof route->owner);
    snprintf(route->reason, sizeof route->reason, "connecting");
    PEN_ASSERT(place->seeds_count >= 1 && place->seeds_count <= REDIS_SEEDS_MAX, "a place names a server");
    for (unsigned i = 0; i < place->seeds_count; i++) {
        if (place->kind == REDIS_SENTINEL) {
            redis_node_init(&route->sentinels[i], &place->seeds[i], REDIS_TASK_WATCH, &sentinel_user, route);
            continue;
        }
        unsigned index = node_make(route, &place->seeds[i]);
        if (index != REDIS_NOBODY)
            route->nodes[index]->seed = true;
        if (place->kind == REDIS_SINGLE && index != REDIS_NOBODY) {
            memset(route->owner, (int)index, sizeof route->owner);
            route->nodes[index]->owns = true;
        }
    }
    return route;
}

void redis_route_listen(struct redis_route *route, const struct redis_route_user *user, void *context)
{
    route->user = user;
    route->context = context;
}

void redis_route_free(struct redis_route *route)
{
    if (!route)
        return;
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        if (route->nodes[i])
            redis_node_close(&route->nodes[i]->node, NULL, 0);
        free(route->nodes[i]);
    }
    for (unsigned i = 0; route->place->kind == REDIS_SENTINEL && i < route->place->seeds_count; i++)
        redis_node_close(&route->sentinels[i], NULL, 0);
    free(route);
}

/* ---- whom to ask ---- */

struct redis_node *redis_route_node(struct redis_route *route, const char *key)
{
    unsigned owner = route->owner[route->place->kind == REDIS_CLUSTER ? redis_slot(key, strlen(key)) : 0];
    if (owner == REDIS_NOBODY) {
        route->stale = true;
        return NULL;
    }
    return is_up(route->nodes[owner]) ? &route->nodes[owner]->node : NULL;
}

struct redis_node *redis_route_any(struct redis_route *route)
{
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        if (is_up(route->nodes[i]) && route->nodes[i]->owns)
            return &route->nodes[i]->node;
    }
    return NULL;
}

const char *redis_route_reason(const struct redis_route *route)
{
    return route->reason;
}

struct redis_node *redis_route_redirected(struct redis_route *route, const struct redis_node *node, const char *error,
                                          uint64_t now_us, bool *ret_ask)
{
    struct redis_redirection to;
    if (route->place->kind != REDIS_CLUSTER || !redis_redirection_read(error, &node->address, &to)) {
        route->stale |= strncmp(error, "CLUSTERDOWN", 11) == 0;
        return NULL;
    }
    unsigned index = node_make(route, &to.address);
    if (index == REDIS_NOBODY)
        return NULL;
    route->nodes[index]->wanted_until_us = now_us + ASKED_US;
    if (!to.ask) {
        route->owner[to.slot] = (uint8_t)index;
        route->nodes[index]->owns = true;
        route->stale = true;
    }
    *ret_ask = to.ask;
    return is_up(route->nodes[index]) ? &route->nodes[index]->node : NULL;
}

/* ---- the thread's turn ---- */

static bool is_wanted(const struct routed *routed, bool seeds, uint64_t now_us)
{
    return routed->owns || (routed->seed && seeds) || now_us < routed->wanted_until_us;
}

/* Connects to those that are needed, and leaves the others. Seeds are needed while nobody else can be asked. */
static void nodes_look(struct redis_route *route, uint64_t now_us)
{
    bool seeds = route->place->kind == REDIS_CLUSTER && redis_route_any(route) == NULL;
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        struct routed *routed = route->nodes[i];
        if (!routed)
            continue;
        if (!is_wanted(routed, seeds, now_us))
            node_drop(route, i, now_us);
        else if (routed->node.state == REDIS_NODE_DOWN && now_us >= routed->node.retry_us)
            redis_node_begin(&routed->node, route->place, now_us);
    }
}

static struct redis_node *node_at(struct redis_route *route, unsigned index)
{
    if (index < REDIS_ROUTE_NODES)
        return route->nodes[index] ? &route->nodes[index]->node : NULL;
    return route->place->kind == REDIS_SENTINEL ? &route->sentinels[route->sentinel] : NULL;
}

int redis_route_polls(struct redis_route *route, zmq_pollitem_t *items)
{
    int count = 0;
    for (unsigned i = 0; i < REDIS_ROUTE_POLLS; i++) {
        struct redis_node *node = node_at(route, i);
        if (!node || !node->redis)
            continue;
        short events = redis_node_wants_write(node) ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
        items[count] = (zmq_pollitem_t){.fd = node->redis->fd, .events = events};
        route->polled[count++] = node;
    }
    return count;
}

void redis_route_flush(struct redis_route *route, uint64_t now_us)
{
    for (unsigned i = 0; i < REDIS_ROUTE_POLLS; i++) {
        struct redis_node *node = node_at(route, i);
        if (node)
            redis_node_flush(node, now_us);
    }
}

/* A connection may have been closed, and another one begun, by what an earlier item brought: its descriptor tells. */
void redis_route_turn(struct redis_route *route, const zmq_pollitem_t *items, int count, uint64_t now_us)
{
    for (int i = 0; i < count; i++) {
        struct redis_node *node = route->polled[i];
        bool same = node->redis && node->redis->fd == items[i].fd;
        bool readable = same && (items[i].revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0;
        redis_node_turn(node, route->place, readable, now_us);
    }
    if (route->place->kind == REDIS_SENTINEL)
        sentinels_look(route, now_us);
    nodes_look(route, now_us);
    if (map_wanted(route) && now_us >= route->map_us)
        map_ask(route, now_us);
    redis_route_flush(route, now_us);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t redis_route_due_us(struct redis_route *route, uint64_t now_us)
{
    uint64_t due_us = map_wanted(route) ? route->map_us : UINT64_MAX;
    bool any = redis_route_any(route) != NULL, seeds = route->place->kind == REDIS_CLUSTER && !any;
    for (unsigned i = 0; i < REDIS_ROUTE_NODES; i++) {
        const struct routed *routed = route->nodes[i];
        if (!routed)
            continue;
        due_us = sooner(due_us, redis_node_due_us(&routed->node));
        if (routed->node.state == REDIS_NODE_DOWN && is_wanted(routed, seeds, now_us))
            due_us = sooner(due_us, routed->node.retry_us);
    }
    if (route->place->kind == REDIS_SENTINEL) {
        const struct redis_node *sentinel = &route->sentinels[route->sentinel];
        due_us = sooner(due_us, sentinel->state == REDIS_NODE_DOWN ? sentinel->retry_us : redis_node_due_us(sentinel));
        due_us = !any && sentinel->state == REDIS_NODE_UP ? sooner(due_us, route->name_us) : due_us;
    }
    return due_us;
}
