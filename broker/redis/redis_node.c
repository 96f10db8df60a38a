#include "redis_node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "assertion.h"
#include "redis_open.h"
#include "redis_tls.h"

#define GREETING_US 250000u
#define RETRY_US    250000u

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_ROLE, GREETING_PING };

void redis_node_init(struct redis_node *node, const struct redis_address *address, enum redis_node_task task,
                     const struct redis_node_user *user, void *context)
{
    *node = (struct redis_node){
        .address = *address, .task = task, .user = user, .context = context, .retry_after_us = RETRY_US};
    node->timeout_us = GREETING_US;
    TAILQ_INIT(&node->in_flight);
    snprintf(node->reason, sizeof node->reason, "connecting");
}

/* ---- the end ---- */

static void lose_all(struct redis_node *node)
{
    struct redis_question *question;
    while ((question = TAILQ_FIRST(&node->in_flight)) != NULL) {
        TAILQ_REMOVE(&node->in_flight, question, in_flight);
        node->in_flight_count--;
        node->user->answer(node->context, node, question, NULL);
    }
    PEN_ASSERT(node->in_flight_count == 0, "a node that is down owes nothing");
}

void redis_node_close(struct redis_node *node, const char *reason, uint64_t now_us)
{
    if (reason && reason != node->reason)
        snprintf(node->reason, sizeof node->reason, "%.90s", reason);
    if (node->redis) {
        redis_tls_reason(node->tls, node->reason, reason ? sizeof node->reason : 0);
        redisFree(node->redis);
    }
    bool at_once = node->prompt && node->state == REDIS_NODE_UP && now_us >= node->up_us + node->retry_after_us;
    node->redis = NULL;
    node->tls = NULL;
    node->state = REDIS_NODE_DOWN;
    node->unsent = false;
    node->greetings_count = node->greetings_heard = 0;
    node->retry_us = at_once ? now_us : now_us + node->retry_after_us;
    node->news = reason && !node->failing;
    node->failing |= reason != NULL;
    lose_all(node);
    if (reason)
        node->user->changed(node->context, node);
}

/* ---- greeting ---- */

static void greet(struct redis_node *node, enum greeting greeting, const struct redis_place *place)
{
    struct redis_place now;
    PEN_ASSERT(node->greetings_count < REDIS_GREETINGS_MAX, "a node has room for its greetings");
    node->greetings[node->greetings_count++] = (uint8_t)greeting;
    node->unsent = true;
    if (greeting == GREETING_SELECT)
        redisAppendCommand(node->redis, "SELECT %d", place->database);
    else if (greeting != GREETING_AUTH)
        redisAppendCommand(node->redis, greeting == GREETING_ROLE ? "ROLE" : "PING");
    else {
        redis_password_now(place, &now);
        if (*now.user)
            redisAppendCommand(node->redis, "AUTH %s %s", now.user, now.password);
        else
            redisAppendCommand(node->redis, "AUTH %s", now.password);
        explicit_bzero(&now, sizeof now);
    }
}

void redis_node_begin(struct redis_node *node, const struct redis_place *place, uint64_t now_us)
{
    char reason[REDIS_REASON_BYTES] = "no memory";
    PEN_ASSERT(node->state == REDIS_NODE_DOWN && !node->redis, "one connection at a time");
    node->redis = redisConnectNonBlock(node->address.host, node->address.port);
    if (node->redis)
        snprintf(reason, sizeof reason, "%.90s", node->redis->errstr);
    if (!node->redis || node->redis->err ||
        (place->tls && !redis_tls_begin(node->redis, place, node->address.host, &node->tls, reason, sizeof reason))) {
        redis_node_close(node, reason, now_us);
        return;
    }
    redisEnableKeepAlive(node->redis);
    node->state = REDIS_NODE_GREETING;
    node->active_us = now_us;
    if (node->task == REDIS_TASK_WATCH) {
        greet(node, GREETING_PING, place);
        return;
    }
    if (*place->password)
        greet(node, GREETING_AUTH, place);
    greet(node, GREETING_SELECT, place);
    if (node->task == REDIS_TASK_MASTER)
        greet(node, GREETING_ROLE, place);
}

/* A Sentinel that wants a password gets that of Redis. NULL: all is well; else why the node cannot be used. */
static const char *hear_greeting(struct redis_node *node, const struct redis_place *place, const redisReply *reply)
{
    enum greeting greeting = (enum greeting)node->greetings[node->greetings_heard++];
    if (greeting == GREETING_ROLE) {
        bool master = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->str &&
                      strcmp(reply->element[0]->str, "master") == 0;
        return master ? NULL : "the server that the Sentinels name is no master";
    }
    if (reply->type == REDIS_REPLY_STATUS)
        return NULL;
    if (reply->type != REDIS_REPLY_ERROR)
        return "it gave an answer that no Redis gives";
    if (greeting == GREETING_PING && *place->password && strncmp(reply->str, "NOAUTH", 6) == 0) {
        greet(node, GREETING_AUTH, place);
        return NULL;
    }
    return reply->str;
}

/* ---- questions and answers ---- */

bool redis_node_ask(struct redis_node *node, struct redis_question *question, bool asking, int words,
                    const char *const *text, const size_t *bytes, uint64_t now_us)
{
    if (node->state != REDIS_NODE_UP || node->in_flight_count >= REDIS_IN_FLIGHT_MAX ||
        (asking && redisAppendCommand(node->redis, "ASKING") != REDIS_OK))
        return false;
    /* hiredis takes the words as they are, and has no const for them */
    if (redisAppendCommandArgv(node->redis, words, (const char **)(uintptr_t)text, bytes) != REDIS_OK)
        return false;
    node->unsent = true;
    if (question) {
        question->sent_us = now_us;
        question->asking = asking;
        TAILQ_INSERT_TAIL(&node->in_flight, question, in_flight);
        node->in_flight_count++;
    }
    return true;
}

static const char *hear_answer(struct redis_node *node, const redisReply *reply)
{
    struct redis_question *question = TAILQ_FIRST(&node->in_flight);
    bool pushed = node->task == REDIS_TASK_WATCH && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3;
    if (!question || pushed) {
        if (node->task != REDIS_TASK_WATCH)
            return "it sent what nobody asked for";
        node->user->unasked(node->context, node, reply);
        return NULL;
    }
    if (question->asking) {
        question->asking = false;
        return NULL;
    }
    TAILQ_REMOVE(&node->in_flight, question, in_flight);
    node->in_flight_count--;
    node->user->answer(node->context, node, question, reply);
    return NULL;
}

static const char *hear(struct redis_node *node, const struct redis_place *place, const redisReply *reply)
{
    if (node->state == REDIS_NODE_UP)
        return hear_answer(node, reply);
    if (node->greetings_heard == node->greetings_count)
        return "it sent what nobody asked for";
    const char *wrong = hear_greeting(node, place, reply);
    if (!wrong && node->greetings_heard == node->greetings_count) {
        node->state = REDIS_NODE_UP;
        node->up_us = node->active_us;
        node->failing = false;
        node->user->changed(node->context, node);
    }
    return wrong;
}

/* ---- reading and writing ---- */

void redis_node_flush(struct redis_node *node, uint64_t now_us)
{
    int done = 0;
    if (!node->redis || !node->unsent)
        return;
    if (redisBufferWrite(node->redis, &done) != REDIS_OK) {
        redis_node_close(node, redis_reason(node->redis), now_us);
        return;
    }
    node->unsent = !done;
}

/* False: the node was closed. */
static bool read_all(struct redis_node *node, const struct redis_place *place, uint64_t now_us)
{
    void *reply = NULL;
    char reason[REDIS_REASON_BYTES];
    if (redisBufferRead(node->redis) != REDIS_OK) {
        bool ended = node->redis->err == REDIS_ERR_EOF;
        redis_node_close(node, ended ? "Redis closed the connection" : redis_reason(node->redis), now_us);
        return false;
    }
    node->active_us = now_us;
    for (;;) {
        if (redisGetReplyFromReader(node->redis, &reply) != REDIS_OK) {
            redis_node_close(node, redis_reason(node->redis), now_us);
            return false;
        }
        if (!reply)
            return true;
        const char *wrong = hear(node, place, reply);
        if (wrong)
            snprintf(reason, sizeof reason, "%.90s", wrong);
        freeReplyObject(reply);
        if (wrong) {
            redis_node_close(node, reason, now_us);
            return false;
        }
    }
}

/* Silent since its last byte, or since the oldest question. */
static uint64_t silent_since_us(const struct redis_node *node)
{
    const struct redis_question *oldest = TAILQ_FIRST(&node->in_flight);
    return oldest && oldest->sent_us > node->active_us ? oldest->sent_us : node->active_us;
}

uint64_t redis_node_due_us(const struct redis_node *node)
{
    if (node->state == REDIS_NODE_DOWN)
        return UINT64_MAX;
    if (node->state == REDIS_NODE_GREETING)
        return node->active_us + GREETING_US;
    return TAILQ_EMPTY(&node->in_flight) ? UINT64_MAX : silent_since_us(node) + node->timeout_us;
}

void redis_node_turn(struct redis_node *node, const struct redis_place *place, bool readable, uint64_t now_us)
{
    if (!node->redis || (readable && !read_all(node, place, now_us)))
        return;
    redis_node_flush(node, now_us);
    if (node->redis && now_us >= redis_node_due_us(node))
        redis_node_close(node, "no answer in time", now_us);
}

bool redis_node_wants_write(const struct redis_node *node)
{
    return node->redis && node->unsent && !redis_tls_waits(node->tls);
}
