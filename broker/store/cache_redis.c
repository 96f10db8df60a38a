#include "cache_redis.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "breaker.h"
#include "cache_stored.h"
#include "logline.h"
#include "redis_mail.h"
#include "redis_thread.h"

#define STORES_MAX      64u
#define STORE_BYTES_MAX (32u * 1024u * 1024u)

struct cache_redis {
    void *socket;
    pthread_t id;
    struct redis_thread thread;
    struct breaker breaker;
    const char *namespace;
    uint64_t questions, value_bytes_max, stores, store_bytes, left_out, mismatched;
};

static void *pair(void *context, const char *address, bool bind)
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int none = 0;
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none); /* bounded by what we hand over at once */
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    if ((bind ? zmq_bind(socket, address) : zmq_connect(socket, address)) == 0)
        return socket;
    zmq_close(socket);
    return NULL;
}

enum pen_status cache_redis_new(void *context, const struct cache_options *options, struct cache_redis **ret_redis,
                                struct pen_error *reterr)
{
    char address[64];
    struct cache_redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the Redis cache");
    snprintf(address, sizeof address, "inproc://redis-%p", (void *)redis);
    redis->thread.place = options->redis;
    redis->thread.ttl_ms = options->ttl_us ? options->ttl_us / 1000 + 1 : 0;
    redis->thread.timeout_us = options->deadline_us;
    redis->namespace = options->namespace;
    redis->value_bytes_max = options->bytes_max;
    breaker_init(&redis->breaker);
    redis->socket = pair(context, address, true);
    redis->thread.socket = redis->socket ? pair(context, address, false) : NULL;
    if (redis->thread.socket && pthread_create(&redis->id, NULL, redis_thread_run, &redis->thread) == 0) {
        *ret_redis = redis;
        return PEN_OK;
    }
    if (redis->thread.socket)
        zmq_close(redis->thread.socket);
    if (redis->socket)
        zmq_close(redis->socket);
    free(redis);
    return pen_error_set(reterr, PEN_ERR_IO, "cannot start the Redis thread: %s", strerror(errno));
}

/* A socket closed with letters in it drops them: both ends are read first. */
static void read_out(void *socket)
{
    struct redis_letter *letter;
    while ((letter = letter_receive(socket)) != NULL)
        letter_free(letter);
}

void cache_redis_free(struct cache_redis *redis)
{
    if (!redis)
        return;
    struct redis_letter *letter = letter_new(LETTER_STOP);
    if (!letter || !letter_send(redis->socket, letter))
        return; /* the thread still runs on what would be freed */
    pthread_join(redis->id, NULL);
    read_out(redis->thread.socket);
    read_out(redis->socket);
    zmq_close(redis->thread.socket);
    zmq_close(redis->socket);
    free(redis);
}

static struct redis_letter *address(struct cache_redis *redis, enum letter_kind kind, const struct cache_key *key,
                                    const char *tenant)
{
    char request[DIGEST_TEXT_BYTES], model[DIGEST_TEXT_BYTES];
    struct redis_letter *letter = letter_new(kind);
    if (letter)
        letter->about = *key;
    if (letter)
        snprintf(letter->key, sizeof letter->key, "%.128s:1:%s:%s:%s:%u", redis->namespace, tenant,
                 digest_text(key->request, request), digest_text(key->model, model), key->precision);
    return letter;
}

bool cache_redis_ask(struct cache_redis *redis, const struct cache_key *key, const char *tenant, uint64_t *ret_question)
{
    struct redis_letter *letter = redis->breaker.open ? NULL : address(redis, LETTER_GET, key, tenant);
    if (!letter)
        return false;
    letter->question = ++redis->questions;
    *ret_question = letter->question;
    return letter_send(redis->socket, letter);
}

void cache_redis_put(struct cache_redis *redis, const struct cache_key *key, const char *tenant,
                     const struct parcel *parcel)
{
    if (redis->breaker.open || parcel_bytes(parcel) > redis->value_bytes_max || redis->stores >= STORES_MAX ||
        redis->store_bytes + parcel_bytes(parcel) > STORE_BYTES_MAX) {
        redis->left_out++;
        return;
    }
    struct redis_letter *letter = address(redis, LETTER_PUT, key, tenant);
    if (!letter)
        return;
    letter->parcel = stored_make(parcel, key, letter->key); /* its own references: the thread releases them */
    size_t bytes = parcel_bytes(parcel);
    if (!letter->parcel)
        letter_free(letter);
    else if (letter_send(redis->socket, letter)) {
        redis->stores++;
        redis->store_bytes += bytes;
    }
}

static void on_state(struct cache_redis *redis, const struct redis_letter *letter)
{
    bool was_open = redis->breaker.open;
    bool told = strcmp(redis->breaker.reason, letter->text) == 0;
    if (letter->up)
        breaker_close(&redis->breaker);
    else
        breaker_trip(&redis->breaker, letter->text);
    if (letter->up && was_open)
        log_event(LOG_INFO, "cache_up", "kind=redis host=%s port=%d", redis->thread.place.host,
                  redis->thread.place.port);
    else if (!letter->up && !told)
        log_event(LOG_WARN, "cache_down", "kind=redis host=%s port=%d reason=%s", redis->thread.place.host,
                  redis->thread.place.port, letter->text);
}

/* An answer: true when it is one for the caller. */
static bool on_answer(struct cache_redis *redis, struct redis_letter *letter, uint64_t *ret_question, bool *ret_hit,
                      struct cache_value *ret_value)
{
    *ret_question = letter->question;
    bool ours = letter->parcel && stored_is(letter->parcel, &letter->about, letter->key);
    *ret_hit = ours && cache_value_read(letter->parcel, ret_value) == PEN_OK;
    if (letter->parcel && !ours) { /* it is computed again, and stored in its place */
        redis->mismatched++;
        log_event(LOG_WARN, "cache_mismatch", "key=%s reason=%s", letter->key,
                  "the value there was not put under this key");
    }
    if (*ret_hit)
        letter->parcel = NULL; /* given on */
    if (!letter->failed)
        breaker_pass(&redis->breaker);
    return true;
}

bool cache_redis_poll(struct cache_redis *redis, uint64_t *ret_question, bool *ret_hit, struct cache_value *ret_value)
{
    struct redis_letter *letter;
    bool answered = false;
    while (!answered && (letter = letter_receive(redis->socket)) != NULL) {
        if (letter->kind == LETTER_ANSWER) {
            answered = on_answer(redis, letter, ret_question, ret_hit, ret_value);
        } else if (letter->kind == LETTER_STATE) {
            on_state(redis, letter);
        } else if (letter->kind == LETTER_STORED) {
            redis->stores--;
            redis->store_bytes -= letter->bytes;
        }
        letter_free(letter);
    }
    return answered;
}

/* When we open the breaker ourselves, the thread must prove that Redis is there before it closes again. */
void cache_redis_give_up(struct cache_redis *redis)
{
    if (!breaker_fail(&redis->breaker, "no answer in time"))
        return;
    log_event(LOG_WARN, "cache_down", "kind=redis host=%s port=%d reason=%s", redis->thread.place.host,
              redis->thread.place.port, redis->breaker.reason);
    struct redis_letter *letter = letter_new(LETTER_CHECK);
    if (letter)
        letter_send(redis->socket, letter);
}

void *cache_redis_socket(struct cache_redis *redis)
{
    return redis->socket;
}

void cache_redis_report(const struct cache_redis *redis, struct cache_report *report)
{
    report->mismatched = redis->mismatched;
    if (redis->breaker.open)
        snprintf(report->state, sizeof report->state, "open: %s", redis->breaker.reason);
    else
        snprintf(report->state, sizeof report->state, "ok");
}
