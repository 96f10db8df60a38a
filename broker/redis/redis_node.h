/*
 * redis_node.h - a connection to one Redis that never waits: questions go out in order, and their answers come back in
 * the same order, or not at all.
 *
 * A node greets (password, database, role) before it is UP. A node that is silent for its time-out while it owes an
 * answer is closed, because its later answers would belong to other questions; what it owed is told lost.
 * Threads: one-at-a-time.
 */
#ifndef REDIS_NODE_H
#define REDIS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

#define REDIS_REASON_BYTES  96u
#define REDIS_IN_FLIGHT_MAX 8192u
#define REDIS_GREETINGS_MAX 4u

/* Lies in what the caller asks for. */
struct redis_question {
    TAILQ_ENTRY(redis_question) in_flight;
    uint64_t sent_us;
    bool asking; /* the answer to ASKING comes before its own */
};
TAILQ_HEAD(redis_question_list, redis_question);

enum redis_node_state { REDIS_NODE_DOWN, REDIS_NODE_GREETING, REDIS_NODE_UP };
enum redis_node_task {
    REDIS_TASK_KEYS,   /* keeps keys */
    REDIS_TASK_MASTER, /* the same, and must say that it is a master */
    REDIS_TASK_WATCH   /* a Sentinel */
};

struct redis_node;
struct redis_node_user {
    /* reply NULL: it is lost. May ask questions, and must not close the node. */
    void (*answer)(void *context, struct redis_node *node, struct redis_question *question, const redisReply *reply);
    void (*unasked)(void *context, struct redis_node *node, const redisReply *reply); /* WATCH: a message */
    void (*changed)(void *context, struct redis_node *node); /* UP now, or DOWN for the reason in the node */
};

struct redis_node {
    struct redis_address address;
    enum redis_node_task task;
    enum redis_node_state state;
    const struct redis_node_user *user;
    void *context;
    uint64_t timeout_us, retry_after_us;
    uint64_t retry_us;  /* DOWN: not before */
    uint64_t up_us;     /* since when it is UP */
    bool failing, news; /* DOWN for a reason; news: since now, and not since an earlier try */
    bool prompt; /* one that was UP for longer than retry_after_us is tried again at once: it may only have paused */
    uint64_t active_us; /* bytes last came or went; or the connection began */
    struct redis_question_list in_flight;
    size_t in_flight_count;
    uint8_t greetings[REDIS_GREETINGS_MAX];
    unsigned greetings_count, greetings_heard;
    bool unsent;
    redisContext *redis;
    void *tls;
    char reason[REDIS_REASON_BYTES]; /* of the last failure */
};

void redis_node_init(struct redis_node *node, const struct redis_address *address, enum redis_node_task task,
                     const struct redis_node_user *user, void *context);
/* Begins to connect; DOWN and late enough. */
void redis_node_begin(struct redis_node *node, const struct redis_place *place, uint64_t now_us);
/* What is in flight is told lost. reason NULL: it is not needed any more, and nobody is told. */
void redis_node_close(struct redis_node *node, const char *reason, uint64_t now_us);

/* Puts a command behind the others. False: the node is not UP, owes too many answers, or there is no memory. asking:
   after ASKING. question NULL: its answer is unasked. */
bool redis_node_ask(struct redis_node *node, struct redis_question *question, bool asking, int words,
                    const char *const *text, const size_t *bytes, uint64_t now_us);
/* Writes what can be written at once. */
void redis_node_flush(struct redis_node *node, uint64_t now_us);
/* Reads and writes. readable: there may be something to read. */
void redis_node_turn(struct redis_node *node, const struct redis_place *place, bool readable, uint64_t now_us);
bool redis_node_wants_write(const struct redis_node *node);
/* When to call redis_node_turn though nothing came; UINT64_MAX = never. */
uint64_t redis_node_due_us(const struct redis_node *node);

#endif
