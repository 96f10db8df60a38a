#include "cache_redis.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assertion.h"
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

/* One end of a pair of sockets; join: zmq_bind or zmq_connect. */
static void *pair(void *context, const char *address, int (*join)(void *socket, const char *address))
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int none = 0;
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none); /* we bound what we hand over ourselves */
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    if (join(socket, address) == 0)
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
    redis->thread.route = redis_route_new(&redis->thread.place, options->deadline_us);
    redis->namespace = options->namespace;
    redis->value_bytes_max = options->bytes_max;
    breaker_init(&redis->breaker);
    redis->socket = pair(context, address, zmq_bind);
    redis->thread.socket = redis->socket ? pair(context, address, zmq_connect) : NULL;
    if (redis->thread.route && redis->thread.socket &&
        pthread_create(&redis->id, NULL, redis_thread_run, &redis->thread) == 0) {
        *ret_redis = redis;
        return PEN_OK;
    }
    bool memory = redis->thread.route != NULL;
    if (redis->thread.socket)
        zmq_close(redis->thread.socket);
    if (redis->socket)
        zmq_close(redis->socket);
    redis_route_free(redis->thread.route);
    free(redis);
    if (!memory)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for connections to Redis");
    return pen_error_set(reterr, PEN_ERR_IO, "cannot start the Redis thread: %s", strerror(errno));
}

/* Closing a socket loses the mails in it, so both ends are read first. */
static void read_out(void *socket)
{
    struct redis_mail *mail;
    while ((mail = redis_mail_receive(socket)) != NULL)
        redis_mail_free(mail);
}

void cache_redis_free(struct cache_redis *redis)
{
    if (!redis)
        return;
    struct redis_mail *mail = redis_mail_new(REDIS_MAIL_STOP);
    if (!mail || !redis_mail_send(redis->socket, mail))
        return; /* the thread still uses what would be freed */
    pthread_join(redis->id, NULL);
    read_out(redis->thread.socket);
    read_out(redis->socket);
    zmq_close(redis->thread.socket);
    zmq_close(redis->socket);
    free(redis);
}

static struct redis_mail *address(struct cache_redis *redis, enum redis_mail_kind kind, const struct cache_key *key,
                                  const char *tenant)
{
    char request[DIGEST_TEXT_BYTES], model[DIGEST_TEXT_BYTES];
    struct redis_mail *mail = redis_mail_new(kind);
    if (mail)
        mail->about = *key;
    size_t used = 0;
    if (mail)
        used = (size_t)snprintf(mail->key, sizeof mail->key, "%.128s:1:%s:%s:%s:%u", redis->namespace, tenant,
                                digest_text(key->request, request), digest_text(key->model, model), key->precision);
    if (mail && key->contract && used < sizeof mail->key) /* brokers that know no contracts have the key without it */
        snprintf(mail->key + used, sizeof mail->key - used, ":%016" PRIx64, key->contract);
    return mail;
}

static uint64_t now_unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

bool cache_redis_ask(struct cache_redis *redis, const struct cache_key *key, const char *tenant, uint64_t *ret_question)
{
    struct redis_mail *mail = redis->breaker.open ? NULL : address(redis, REDIS_MAIL_GET, key, tenant);
    if (!mail)
        return false;
    mail->question = ++redis->questions;
    *ret_question = mail->question;
    return redis_mail_send(redis->socket, mail);
}

void cache_redis_put(struct cache_redis *redis, const struct cache_key *key, const char *tenant,
                     const struct shared_message *shared)
{
    if (redis->breaker.open || shared_message_bytes(shared) > redis->value_bytes_max || redis->stores >= STORES_MAX ||
        redis->store_bytes + shared_message_bytes(shared) > STORE_BYTES_MAX) {
        redis->left_out++;
        return;
    }
    struct redis_mail *mail = address(redis, REDIS_MAIL_PUT, key, tenant);
    if (!mail)
        return;
    mail->shared =
        stored_make(shared, key, mail->key, now_unix_us()); /* its own references: the thread releases them */
    size_t bytes = mail->shared ? shared_message_bytes(mail->shared) : 0; /* with the time: more than the value has */
    if (!mail->shared)
        redis_mail_free(mail);
    else if (redis_mail_send(redis->socket, mail)) {
        redis->stores++;
        redis->store_bytes += bytes;
    }
}

static void on_state(struct cache_redis *redis, const struct redis_mail *mail)
{
    bool was_open = redis->breaker.open;
    bool told = strcmp(redis->breaker.reason, mail->text) == 0;
    const struct redis_place *place = &redis->thread.place;
    if (mail->up)
        breaker_close(&redis->breaker);
    else
        breaker_trip(&redis->breaker, mail->text);
    if (mail->up && was_open)
        log_event(LOG_INFO, "cache_up", "kind=%s host=%s port=%d", redis_kind_name(place->kind), place->seeds[0].host,
                  place->seeds[0].port);
    else if (!mail->up && !told)
        log_event(LOG_WARN, "cache_down", "kind=%s host=%s port=%d reason=%s", redis_kind_name(place->kind),
                  place->seeds[0].host, place->seeds[0].port, mail->text);
}

/* An answer: true when it is one for the caller. */
static bool on_answer(struct cache_redis *redis, struct redis_mail *mail, uint64_t *ret_question, bool *ret_hit,
                      struct cache_value *ret_value)
{
    *ret_question = mail->question;
    bool ours = mail->shared && stored_is(mail->shared, &mail->about, mail->key);
    *ret_hit = ours && cache_value_read(mail->shared, ret_value) == PEN_OK;
    if (mail->shared && !ours) { /* it is computed again, and replaces the stored one */
        redis->mismatched++;
        log_event(LOG_WARN, "cache_mismatch", "key=%s reason=%s", mail->key,
                  "the value there was not put under this key");
    }
    uint64_t now_us = *ret_hit ? now_unix_us() : 0, stored_us = *ret_hit ? ret_value->stored_unix_us : 0;
    if (*ret_hit) { /* another broker's clock may be ahead of ours */
        ret_value->age_us = stored_us && now_us > stored_us ? now_us - stored_us : 0;
        mail->shared = NULL; /* given on */
    }
    if (!mail->failed)
        breaker_pass(&redis->breaker);
    return true;
}

bool cache_redis_poll(struct cache_redis *redis, uint64_t *ret_question, bool *ret_hit, struct cache_value *ret_value)
{
    struct redis_mail *mail;
    bool answered = false;
    while (!answered && (mail = redis_mail_receive(redis->socket)) != NULL) {
        if (mail->kind == REDIS_MAIL_ANSWER) {
            answered = on_answer(redis, mail, ret_question, ret_hit, ret_value);
        } else if (mail->kind == REDIS_MAIL_STATE) {
            on_state(redis, mail);
        } else if (mail->kind == REDIS_MAIL_STORED) {
            PEN_ASSERT(redis->stores > 0 && redis->store_bytes >= mail->bytes, "what is stored was on its way");
            redis->stores--;
            redis->store_bytes -= mail->bytes;
            PEN_ASSERT((redis->stores > 0) == (redis->store_bytes > 0), "what is on its way has bytes, and only that");
        }
        redis_mail_free(mail);
    }
    return answered;
}

/* When the broker opens the breaker itself, the thread must show that Redis is there before the breaker closes
   again. */
void cache_redis_give_up(struct cache_redis *redis)
{
    const struct redis_place *place = &redis->thread.place;
    if (!breaker_fail(&redis->breaker, "no answer in time"))
        return;
    log_event(LOG_WARN, "cache_down", "kind=%s host=%s port=%d reason=%s", redis_kind_name(place->kind),
              place->seeds[0].host, place->seeds[0].port, redis->breaker.reason);
    struct redis_mail *mail = redis_mail_new(REDIS_MAIL_CHECK);
    if (mail)
        redis_mail_send(redis->socket, mail);
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
