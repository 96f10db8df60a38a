#include "redis_thread.h"

#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "assertion.h"
#include "deadline.h"
#include "redis_mail.h"
#include "redis_open.h"

#define PIPELINE_MAX 128u
#define RETRY_US     1000000u

struct cache_talk {
    const struct redis_thread *thread;
    redisContext *redis; /* NULL = down */
    uint64_t retry_us;
    struct redis_mail *letters[PIPELINE_MAX];
    size_t count;
};

static void report(const struct cache_talk *talk, bool up, const char *text)
{
    struct redis_mail *mail = redis_mail_new(REDIS_MAIL_STATE);
    if (!mail)
        return;
    mail->up = up;
    snprintf(mail->text, sizeof mail->text, "%.90s", text);
    redis_mail_send(talk->thread->socket, mail);
}

static void go_down(struct cache_talk *talk, const char *text)
{
    report(talk, false, text);
    if (talk->redis)
        redisFree(talk->redis);
    talk->redis = NULL;
    talk->retry_us = clock_now_us() + RETRY_US;
}

/* Connects; an answered SELECT proves that Redis works. */
static void come_up(struct cache_talk *talk)
{
    char reason[REDIS_TEXT_BYTES];
    PEN_ASSERT(!talk->redis, "one connection at a time");
    talk->redis = redis_open(&talk->thread->place, talk->thread->timeout_us, reason, sizeof reason);
    talk->retry_us = clock_now_us() + RETRY_US;
    report(talk, talk->redis != NULL, talk->redis ? "" : reason);
}

static void append_put(struct cache_talk *talk, const struct redis_mail *mail)
{
    size_t size = 0;
    char ttl[24];
    uint8_t *value = value_encode(mail->shared, &size);
    snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)talk->thread->ttl_ms);
    if (!value)
        redisAppendCommand(talk->redis, "PING");
    else if (talk->thread->ttl_ms)
        redisAppendCommand(talk->redis, "SET %s %b PX %s", mail->key, value, size, ttl);
    else
        redisAppendCommand(talk->redis, "SET %s %b", mail->key, value, size);
    free(value);
}

static void append(struct cache_talk *talk, const struct redis_mail *mail)
{
    if (mail->kind == REDIS_MAIL_GET)
        redisAppendCommand(talk->redis, "GET %s", mail->key);
    else if (mail->kind == REDIS_MAIL_PUT)
        append_put(talk, mail);
    else
        redisAppendCommand(talk->redis, "PING");
}

/* Sends the mail back with Redis' answer; NULL = there was no answer. */
static void answer(struct cache_talk *talk, struct redis_mail *mail, const redisReply *reply)
{
    if (mail->kind == REDIS_MAIL_CHECK) {
        redis_mail_free(mail);
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

/* Sends all gathered questions in one write. A time-out or error ends the connection, because its later answers
   would belong to other questions. */
static void exchange(struct cache_talk *talk)
{
    for (size_t i = 0; talk->redis && i < talk->count; i++)
        append(talk, talk->letters[i]);
    for (size_t i = 0; i < talk->count; i++) {
        void *reply = NULL;
        if (talk->redis && redisGetReply(talk->redis, &reply) != REDIS_OK)
            go_down(talk, redis_reason(talk->redis));
        answer(talk, talk->letters[i], reply);
        freeReplyObject(reply);
    }
    talk->count = 0;
}

/* False: told to stop. */
static bool collect(struct cache_talk *talk)
{
    struct redis_mail *mail;
    while (talk->count < PIPELINE_MAX && (mail = redis_mail_receive(talk->thread->socket)) != NULL) {
        if (mail->kind == REDIS_MAIL_STOP) {
            redis_mail_free(mail);
            return false;
        }
        talk->letters[talk->count++] = mail;
    }
    return true;
}

static long wait_ms(const struct cache_talk *talk)
{
    if (talk->redis)
        return -1;
    uint64_t now_us = clock_now_us();
    return talk->retry_us <= now_us ? 0 : (long)((talk->retry_us - now_us) / 1000 + 1);
}

void *redis_thread_run(void *context)
{
    struct cache_talk talk = {.thread = context};
    bool running = true;
    while (running) {
        zmq_pollitem_t items[2] = {{.socket = talk.thread->socket, .events = ZMQ_POLLIN},
                                   {.fd = -1, .events = ZMQ_POLLIN}};
        if (talk.redis)
            items[1].fd = talk.redis->fd;
        zmq_poll(items, talk.redis ? 2 : 1, wait_ms(&talk));
        running = collect(&talk);
        if (talk.redis && items[1].revents && talk.count == 0)
            go_down(&talk, "Redis closed the connection"); /* Redis never sends unasked */
        exchange(&talk);
        if (running && !talk.redis && clock_now_us() >= talk.retry_us)
            come_up(&talk);
    }
    if (talk.redis)
        redisFree(talk.redis);
    return NULL;
}
