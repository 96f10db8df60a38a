#include "redis_thread.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "assertion.h"
#include "deadline.h"
#include "logline.h"
#include "redis_mail.h"
#include "redis_route.h"

#define COLLECT_MAX 128u /* letters taken in one turn; then answers are read */
#define HOPS_MAX    4u   /* redirections of one question */

struct cache_talk {
    const struct redis_thread *thread;
    struct redis_route *route;
    bool up, check; /* up: as told; check: the owner wants to know whether Redis answers */
    uint64_t now_us;
};

static struct redis_mail *mail_of(struct redis_question *question)
{
    return (struct redis_mail *)(void *)((char *)question - offsetof(struct redis_mail, link));
}

static void report(struct cache_talk *talk, bool up, const char *text)
{
    struct redis_mail *mail = redis_mail_new(REDIS_MAIL_STATE);
    talk->up = up;
    if (!mail)
        return;
    mail->up = up;
    snprintf(mail->text, sizeof mail->text, "%.90s", text);
    redis_mail_send(talk->thread->socket, mail);
}

/* ---- commands ---- */

struct command {
    const char *text[5];
    size_t bytes[5];
    int words;
};

static void add(struct command *command, const void *text, size_t bytes)
{
    command->text[command->words] = text;
    command->bytes[command->words++] = bytes;
}

static bool ask_put(struct cache_talk *talk, struct redis_node *node, struct redis_mail *mail, bool asking)
{
    size_t size = 0;
    char ttl[24];
    uint8_t *value = value_encode(mail->shared, &size);
    struct command command = {.words = 0};
    add(&command, "SET", 3);
    add(&command, mail->key, strlen(mail->key));
    add(&command, value, size);
    int digits = snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)talk->thread->ttl_ms);
    if (talk->thread->ttl_ms) {
        add(&command, "PX", 2);
        add(&command, ttl, (size_t)digits);
    }
    bool asked =
        value && redis_node_ask(node, &mail->link, asking, command.words, command.text, command.bytes, talk->now_us);
    free(value);
    return asked;
}

static bool ask(struct cache_talk *talk, struct redis_node *node, struct redis_mail *mail, bool asking)
{
    struct command command = {.words = 0};
    if (mail->kind == REDIS_MAIL_PUT)
        return ask_put(talk, node, mail, asking);
    if (mail->kind == REDIS_MAIL_GET) {
        add(&command, "GET", 3);
        add(&command, mail->key, strlen(mail->key));
    } else {
        add(&command, "PING", 4);
    }
    return redis_node_ask(node, &mail->link, asking, command.words, command.text, command.bytes, talk->now_us);
}

/* ---- answers ---- */

/* Sends the mail back with Redis' answer; NULL = there was no answer. */
static void answer(struct cache_talk *talk, struct redis_mail *mail, const redisReply *reply)
{
    if (mail->kind == REDIS_MAIL_CHECK) {
        redis_mail_free(mail);
        talk->check = !reply; /* another server is asked, when there is one */
        if (reply)
            report(talk, true, "");
        return;
    }
    if (mail->kind == REDIS_MAIL_PUT) {
        PEN_ASSERT(mail->shared, "a letter that stores a message has it");
        mail->kind = REDIS_MAIL_STORED;
        mail->bytes = shared_message_bytes(mail->shared);
        shared_message_release(mail->shared);
        mail->shared = NULL;
    } else {
        PEN_ASSERT(mail->kind == REDIS_MAIL_GET && !mail->shared, "only questions get an answer");
        mail->kind = REDIS_MAIL_ANSWER;
        mail->failed = !reply;
        if (reply && reply->type == REDIS_REPLY_STRING)
            mail->shared = value_decode((const uint8_t *)reply->str, reply->len);
    }
    redis_mail_send(talk->thread->socket, mail);
}

static void on_answer(void *context, struct redis_node *node, struct redis_question *question, const redisReply *reply)
{
    struct cache_talk *talk = context;
    struct redis_mail *mail = mail_of(question);
    bool error = reply && reply->type == REDIS_REPLY_ERROR, asking = false;
    struct redis_node *other = NULL;
    if (error && mail->hops++ < HOPS_MAX)
        other = redis_route_redirected(talk->route, node, reply->str, talk->now_us, &asking);
    if (!other || !ask(talk, other, mail, asking))
        answer(talk, mail, reply);
}

static void on_changed(void *context, const struct redis_node *node)
{
    struct cache_talk *talk = context;
    bool up = redis_route_any(talk->route) != NULL, several = node && talk->thread->place.kind != REDIS_SINGLE;
    if (several && node->state == REDIS_NODE_UP)
        log_event(LOG_INFO, "redis_node_up", "host=%s port=%d", node->address.host, node->address.port);
    else if (several && talk->up && node->news)
        log_event(LOG_WARN, "redis_node_down", "host=%s port=%d reason=%s", node->address.host, node->address.port,
                  node->reason);
    if (!up)
        report(talk, false, redis_route_reason(talk->route));
}

/* ---- the thread ---- */

static void send(struct cache_talk *talk, struct redis_mail *mail)
{
    struct redis_node *node =
        mail->kind == REDIS_MAIL_CHECK ? redis_route_any(talk->route) : redis_route_node(talk->route, mail->key);
    if (!node || !ask(talk, node, mail, false))
        answer(talk, mail, NULL);
}

/* False: told to stop. */
static bool collect(struct cache_talk *talk)
{
    struct redis_mail *mail;
    for (unsigned i = 0; i < COLLECT_MAX && (mail = redis_mail_receive(talk->thread->socket)) != NULL; i++) {
        bool stop = mail->kind == REDIS_MAIL_STOP;
        if (stop)
            redis_mail_free(mail);
        else
            send(talk, mail);
        if (stop)
            return false;
    }
    return true;
}

/* A server that keeps keys has come up, or the question of the owner got lost with one. */
static void look(struct cache_talk *talk)
{
    bool any = redis_route_any(talk->route) != NULL;
    if (any && !talk->up)
        report(talk, true, "");
    struct redis_mail *mail = any && talk->check ? redis_mail_new(REDIS_MAIL_CHECK) : NULL;
    if (!mail)
        return;
    talk->check = false;
    send(talk, mail);
}

static long wait_ms(const struct cache_talk *talk)
{
    uint64_t now_us = clock_now_us(), due_us = redis_route_due_us(talk->route, now_us);
    if (due_us == UINT64_MAX)
        return -1;
    return due_us <= now_us ? 0 : (long)((due_us - now_us) / 1000 + 1);
}

void *redis_thread_run(void *context)
{
    static const struct redis_route_user user = {on_answer, on_changed};
    struct cache_talk talk = {.thread = context, .now_us = clock_now_us()};
    zmq_pollitem_t items[1 + REDIS_ROUTE_POLLS];
    talk.route = talk.thread->route;
    redis_route_listen(talk.route, &user, &talk);
    for (bool running = true; running;) {
        redis_route_turn(talk.route, items, 0, talk.now_us);
        items[0] = (zmq_pollitem_t){.socket = talk.thread->socket, .events = ZMQ_POLLIN};
        int count = redis_route_polls(talk.route, items + 1);
        zmq_poll(items, 1 + count, wait_ms(&talk));
        talk.now_us = clock_now_us();
        redis_route_turn(talk.route, items + 1, count, talk.now_us);
        running = collect(&talk);
        look(&talk);
        redis_route_flush(talk.route, talk.now_us);
    }
    redis_route_free(talk.route);
    return NULL;
}
