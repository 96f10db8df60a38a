#include "redis_thread.h"

#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "deadline.h"
#include "redis_mail.h"
#include "redis_open.h"

#define PIPELINE_MAX 128u
#define RETRY_US     1000000u

struct cache_talk {
    const struct redis_thread *thread;
    redisContext *redis; /* NULL = down */
    uint64_t retry_us;
    struct redis_letter *letters[PIPELINE_MAX];
    size_t count;
};

static void report(const struct cache_talk *talk, bool up, const char *text)
{
    struct redis_letter *letter = letter_new(LETTER_STATE);
    if (!letter)
        return;
    letter->up = up;
    snprintf(letter->text, sizeof letter->text, "%.90s", text);
    letter_send(talk->thread->socket, letter);
}

static void go_down(struct cache_talk *talk, const char *text)
{
    report(talk, false, text);
    if (talk->redis)
        redisFree(talk->redis);
    talk->redis = NULL;
    talk->retry_us = clock_now_us() + RETRY_US;
}

/* Half-open: connects and proves it by an answered SELECT. */
static void come_up(struct cache_talk *talk)
{
    char reason[REDIS_TEXT_BYTES];
    talk->redis = redis_open(&talk->thread->place, talk->thread->timeout_us, reason, sizeof reason);
    talk->retry_us = clock_now_us() + RETRY_US;
    report(talk, talk->redis != NULL, talk->redis ? "" : reason);
}

static void append_put(struct cache_talk *talk, const struct redis_letter *letter)
{
    size_t size = 0;
    char ttl[24];
    uint8_t *value = value_encode(letter->parcel, &size);
    snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)talk->thread->ttl_ms);
    if (!value)
        redisAppendCommand(talk->redis, "PING");
    else if (talk->thread->ttl_ms)
        redisAppendCommand(talk->redis, "SET %s %b PX %s", letter->key, value, size, ttl);
    else
        redisAppendCommand(talk->redis, "SET %s %b", letter->key, value, size);
    free(value);
}

static void append(struct cache_talk *talk, const struct redis_letter *letter)
{
    if (letter->kind == LETTER_GET)
        redisAppendCommand(talk->redis, "GET %s", letter->key);
    else if (letter->kind == LETTER_PUT)
        append_put(talk, letter);
    else
        redisAppendCommand(talk->redis, "PING");
}

/* Turns a letter around with what Redis said; NULL = it said nothing. */
static void answer(struct cache_talk *talk, struct redis_letter *letter, const redisReply *reply)
{
    if (letter->kind == LETTER_CHECK) {
        letter_free(letter);
        if (reply)
            report(talk, true, "");
        return;
    }
    if (letter->kind == LETTER_PUT) {
        letter->kind = LETTER_STORED;
        letter->bytes = parcel_bytes(letter->parcel);
        parcel_release(letter->parcel);
        letter->parcel = NULL;
    } else {
        letter->kind = LETTER_ANSWER;
        letter->failed = !reply;
        if (reply && reply->type == REDIS_REPLY_STRING)
            letter->parcel = value_decode((const uint8_t *)reply->str, reply->len);
    }
    letter_send(talk->thread->socket, letter);
}

/* All that has come goes to Redis in one write; a time-out or error ends the connection, whose answers would be out of step. */
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
    struct redis_letter *letter;
    while (talk->count < PIPELINE_MAX && (letter = letter_receive(talk->thread->socket)) != NULL) {
        if (letter->kind == LETTER_STOP) {
            letter_free(letter);
            return false;
        }
        talk->letters[talk->count++] = letter;
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
            go_down(&talk, "Redis closed the connection"); /* it never speaks unasked */
        exchange(&talk);
        if (running && !talk.redis && clock_now_us() >= talk.retry_us)
            come_up(&talk);
    }
    if (talk.redis)
        redisFree(talk.redis);
    return NULL;
}
