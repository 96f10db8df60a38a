#include "commons.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "commons_order.h"
#include "deadline.h"
#include "logline.h"
#include "redis_open.h"

#define BEAT_US    1000000u
#define ALIVE_US   3000000u
#define ANSWER_US  2000000u
#define ORDERS_MAX (2u * COMMONS_LABELS_MAX) /* under way */
#define TURN_BYTES 64u

#define WORDS_MAX (7u + 2u * ORDERS_MAX)

struct commons {
    struct redis_place place;
    char prefix[160], me[17];
    pthread_t thread;
    int event; /* an order, or the end */
    atomic_uint brokers;
    atomic_bool news;       /* there may be something to hear */
    atomic_uint mismatched; /* labels that were not believed */
    pthread_mutex_t lock;
    struct order_list orders; /* not told yet; under the lock, as the next three */
    uint32_t orders_count;    /* those that are on their way included */
    char *heard;              /* not taken yet; NULL = nothing new */
    bool stop;
    /* of the thread */
    redisContext *redis;
    uint64_t retry_us, beat_us;
    struct order_list sending;
    char turn[TURN_BYTES]; /* EPOCH/COUNT of the labels that were heard last; "" = none yet */
    char *known;           /* these labels, one a line: for a Redis that forgets; NULL = none */
    bool told_down;
    const char *words[WORDS_MAX]; /* of one command */
    size_t words_bytes[WORDS_MAX];
    int words_count;
};

/* clang-format off */
/* KEYS: prefix. ARGV: me, ms that I am alive for (0 = goodbye), the turn that I know, then pairs of field and value. -> brokers, turn, [labels] when another */
static const char script[] =
    "local P = KEYS[1]\n"
    "local clock = redis.call('TIME')\n"
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"
    "if ARGV[2] == '0' then redis.call('ZREM', P .. ':brokers', ARGV[1])\n"
    "else redis.call('ZADD', P .. ':brokers', now + tonumber(ARGV[2]), ARGV[1]) end\n"
    "redis.call('ZREMRANGEBYSCORE', P .. ':brokers', '-inf', now)\n"
    "redis.call('SETNX', P .. ':epoch', now .. '-' .. ARGV[1])\n"
    "for i = 4, #ARGV, 2 do\n"
    "  local field, value = ARGV[i], ARGV[i + 1]\n"
    "  if value == '' then redis.call('HDEL', P .. ':labels', field)\n"
    "  elseif string.sub(value, 1, 1) == '?' then redis.call('HSETNX', P .. ':labels', field, string.sub(value, 2))\n"
    "  else redis.call('HSET', P .. ':labels', field, value) end\n"
    "end\n"
    "if #ARGV > 3 then redis.call('INCR', P .. ':turns') end\n"
    "for _, key in ipairs({':brokers', ':labels', ':turns', ':epoch'}) do\n" /* used: not what gives way in a full cache */
    "  redis.call('EXPIRE', P .. key, 2592000)\n"                             /* 30 days after the last broker */
    "end\n"
    "local turn = redis.call('GET', P .. ':epoch') .. '/' .. (redis.call('GET', P .. ':turns') or '0')\n"
    "local count = redis.call('ZCARD', P .. ':brokers')\n"
    "if turn == ARGV[3] then return {count, turn} end\n"
    "local all, lines = redis.call('HGETALL', P .. ':labels'), {}\n"
    "for i = 1, #all, 2 do lines[#lines + 1] = all[i] .. ' ' .. all[i + 1] .. '\\n' end\n"
    "table.sort(lines)\n" /* the same at every broker */
    "return {count, turn, table.concat(lines)}\n";
/* clang-format on */

/* ---- orders ---- */

static void list_free(struct order_list *list)
{
    struct order *order;
    while ((order = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, order, in_list);
        free(order);
    }
}

/* False: there are too many under way. */
static bool orders_add(struct commons *commons, struct order *order)
{
    pthread_mutex_lock(&commons->lock);
    bool room = commons->orders_count < ORDERS_MAX;
    if (room) {
        TAILQ_INSERT_TAIL(&commons->orders, order, in_list);
        commons->orders_count++;
    }
    pthread_mutex_unlock(&commons->lock);
    return room;
}

static bool list_has(const struct order_list *list, const char *field)
{
    const struct order *order;
    TAILQ_FOREACH(order, list, in_list)
    {
        if (strcmp(order->field, field) == 0)
            return true;
    }
    return false;
}

/* Redis has forgotten: what is known here is told again, where nobody has told it anew. What was just sent is newer, also when it took a label back. */
static void restore(struct commons *commons)
{
    char *all = commons->known, *rest = all, *line;
    commons->known = NULL;
    while (rest && (line = strsep(&rest, "\n")) != NULL) {
        struct order *order = *line ? order_new(line, "?") : NULL;
        if (order && (list_has(&commons->sending, order->field) || !orders_add(commons, order)))
            free(order);
    }
    free(all);
}

/* ---- one word to Redis and back ---- */

static void add(struct commons *commons, const char *text)
{
    commons->words[commons->words_count] = text;
    commons->words_bytes[commons->words_count++] = strlen(text);
}

static void compose(struct commons *commons, const char *alive_ms)
{
    const struct order *order;
    commons->words_count = 0;
    add(commons, "EVAL");
    add(commons, script);
    add(commons, "1");
    add(commons, commons->prefix);
    add(commons, commons->me);
    add(commons, alive_ms);
    add(commons, commons->turn);
    pthread_mutex_lock(&commons->lock);
    TAILQ_CONCAT(&commons->sending, &commons->orders, in_list);
    pthread_mutex_unlock(&commons->lock);
    TAILQ_FOREACH(order, &commons->sending, in_list)
    {
        add(commons, order->field);
        add(commons, order->value);
    }
}

static void hear(struct commons *commons, const char *turn, const redisReply *labels)
{
    uint32_t mismatched = 0;
    char *known = strndup(labels->str, labels->len), *heard = NULL;
    if (known && (mismatched = orders_clean(known)) > 0)
        log_event(LOG_WARN, "labels_mismatch", "labels=%u reason=%s", mismatched,
                  "Redis has them under another model or label than they were set for; they are not believed");
    if (known)
        heard = strdup(known);
    atomic_fetch_add(&commons->mismatched, mismatched);
    if (!known || !heard) {
        free(known);
        free(heard);
        return; /* the turn stays: it is told again */
    }
    snprintf(commons->turn, sizeof commons->turn, "%s", turn);
    free(commons->known);
    commons->known = known;
    pthread_mutex_lock(&commons->lock);
    free(commons->heard);
    commons->heard = heard;
    pthread_mutex_unlock(&commons->lock);
    atomic_store(&commons->news, true);
}

static void count_brokers(struct commons *commons, long long count)
{
    unsigned now = count < 1 ? 1 : count > 1000 ? 1000 : (unsigned)count;
    if (atomic_exchange(&commons->brokers, now) != now)
        log_event(LOG_INFO, "brokers_counted", "brokers=%u", now);
}

static void go_down(struct commons *commons, const char *reason)
{
    if (!commons->told_down)
        log_event(LOG_WARN, "commons_down", "host=%s port=%d reason=%s", commons->place.host, commons->place.port,
                  reason);
    commons->told_down = true;
    if (commons->redis)
        redisFree(commons->redis);
    commons->redis = NULL;
    commons->retry_us = clock_now_us() + BEAT_US;
}

static bool is_reply(const redisReply *reply)
{
    static const int types[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING, REDIS_REPLY_STRING};
    bool good = reply && reply->type == REDIS_REPLY_ARRAY && (reply->elements == 2 || reply->elements == 3);
    for (size_t i = 0; good && i < reply->elements; i++)
        good = reply->element[i]->type == types[i];
    return good;
}

static bool same_epoch(const char *a, const char *b)
{
    size_t length = strcspn(a, "/");
    return strncmp(a, b, length + 1) == 0;
}

static void read_reply(struct commons *commons, const redisReply *reply, bool goodbye)
{
    const char *turn = reply->element[1]->str;
    pthread_mutex_lock(&commons->lock);
    commons->orders_count = 0;
    struct order *order;
    TAILQ_FOREACH(order, &commons->orders, in_list)
    commons->orders_count++;
    pthread_mutex_unlock(&commons->lock);
    if (!goodbye)
        count_brokers(commons, reply->element[0]->integer);
    if (!goodbye && reply->elements == 3) {
        if (commons->known && *commons->known && !same_epoch(commons->turn, turn))
            restore(commons);
        else
            hear(commons, turn, reply->element[2]);
    }
    list_free(&commons->sending);
}

/* A word that was not answered is said again, its orders first: said twice they do the same. */
static void beat(struct commons *commons, uint64_t alive_us)
{
    char alive_ms[24], reason[160] = "it gave an answer that no script of ours gives";
    snprintf(alive_ms, sizeof alive_ms, "%" PRIu64, alive_us / 1000);
    compose(commons, alive_ms);
    redisReply *reply = redisCommandArgv(commons->redis, commons->words_count, commons->words, commons->words_bytes);
    if (is_reply(reply)) {
        read_reply(commons, reply, alive_us == 0);
        commons->beat_us = clock_now_us() + BEAT_US;
    } else {
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            snprintf(reason, sizeof reason, "%.150s", reply ? reply->str : redis_reason(commons->redis));
        go_down(commons, reason);
    }
    freeReplyObject(reply);
}

static void come_up(struct commons *commons)
{
    char reason[160];
    commons->redis = redis_open(&commons->place, ANSWER_US, reason, sizeof reason);
    if (!commons->redis) {
        go_down(commons, reason);
        return;
    }
    if (commons->told_down)
        log_event(LOG_INFO, "commons_up", "host=%s port=%d", commons->place.host, commons->place.port);
    commons->told_down = false;
    commons->beat_us = 0;
}

/* ---- the thread ---- */

static bool orders_wait(struct commons *commons, bool *ret_stop)
{
    pthread_mutex_lock(&commons->lock);
    bool wait = commons->orders_count > 0;
    *ret_stop = commons->stop;
    pthread_mutex_unlock(&commons->lock);
    return wait;
}

static void sleep_until(struct commons *commons, uint64_t until_us)
{
    struct pollfd event = {.fd = commons->event, .events = POLLIN};
    uint64_t now_us = clock_now_us(), count;
    int ms = until_us > now_us ? (int)((until_us - now_us) / 1000 + 1) : 0;
    if (poll(&event, 1, ms) > 0 && read(commons->event, &count, sizeof count) < 0)
        return; /* somebody else's wake: none */
}

static void *run(void *context)
{
    struct commons *commons = context;
    bool stop = false;
    while (!stop) {
        sleep_until(commons, commons->redis ? commons->beat_us : commons->retry_us);
        bool orders = orders_wait(commons, &stop);
        uint64_t now_us = clock_now_us();
        if (!commons->redis && !stop && now_us >= commons->retry_us)
            come_up(commons);
        if (commons->redis && (stop || orders || now_us >= commons->beat_us))
            beat(commons, stop ? 0 : ALIVE_US);
    }
    if (commons->redis)
        redisFree(commons->redis);
    commons->redis = NULL;
    return NULL;
}

/* ---- for the broker's loop ---- */

enum pen_status commons_new(const struct redis_place *place, const char *namespace, uint64_t broker_uuid,
                            struct commons **ret_commons, struct pen_error *reterr)
{
    struct commons *commons = calloc(1, sizeof *commons);
    if (!commons)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for what brokers share in Redis");
    commons->place = *place;
    snprintf(commons->prefix, sizeof commons->prefix, "%.128s:commons", namespace);
    snprintf(commons->me, sizeof commons->me, "%016" PRIx64, broker_uuid);
    TAILQ_INIT(&commons->orders);
    TAILQ_INIT(&commons->sending);
    pthread_mutex_init(&commons->lock, NULL);
    atomic_init(&commons->brokers, 1);
    atomic_init(&commons->mismatched, 0);
    commons->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = commons->event < 0 ? errno : pthread_create(&commons->thread, NULL, run, commons);
    if (error == 0) {
        *ret_commons = commons;
        return PEN_OK;
    }
    enum pen_status status = pen_error_set(
        reterr, PEN_ERR_IO, "cannot start the thread of what brokers share in Redis: %s", strerror(error));
    if (commons->event >= 0)
        close(commons->event);
    pthread_mutex_destroy(&commons->lock);
    free(commons);
    return status;
}

static void wake(const struct commons *commons)
{
    uint64_t one = 1;
    if (write(commons->event, &one, sizeof one) < 0)
        return; /* it is readable already */
}

void commons_free(struct commons *commons)
{
    if (!commons)
        return;
    pthread_mutex_lock(&commons->lock);
    commons->stop = true;
    pthread_mutex_unlock(&commons->lock);
    wake(commons);
    pthread_join(commons->thread, NULL);
    list_free(&commons->orders);
    list_free(&commons->sending);
    free(commons->heard);
    free(commons->known);
    close(commons->event);
    pthread_mutex_destroy(&commons->lock);
    free(commons);
}

uint32_t commons_brokers(const struct commons *commons)
{
    return commons ? atomic_load(&commons->brokers) : 1;
}

uint32_t commons_mismatched(const struct commons *commons)
{
    return commons ? atomic_load(&commons->mismatched) : 0;
}

void commons_tell(struct commons *commons, const char *text)
{
    if (!commons)
        return;
    struct order *order = order_new(text, "");
    if (order && orders_add(commons, order)) {
        wake(commons);
        return;
    }
    log_event(LOG_WARN, "order_not_told", "order=%s reason=%s", text,
              order ? "too many wait for Redis" : "there is no memory for it");
    free(order);
}

bool commons_hear(struct commons *commons, char **ret_orders)
{
    if (!commons || !atomic_load(&commons->news))
        return false;
    pthread_mutex_lock(&commons->lock);
    bool ready = commons->orders_count == 0 && commons->heard;
    if (ready) {
        *ret_orders = commons->heard;
        commons->heard = NULL;
        atomic_store(&commons->news, false);
    }
    pthread_mutex_unlock(&commons->lock);
    return ready;
}
