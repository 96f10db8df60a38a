#include "cluster.h"

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

#include "assertion.h"
#include "cluster_order.h"
#include "deadline.h"
#include "logline.h"
#include "mutex.h"
#include "redis_find.h"

#define BEAT_US    1000000u
#define ALIVE_US   3000000u
#define ANSWER_US  2000000u
#define ORDERS_MAX (2u * CLUSTER_LABELS_MAX) /* under way */
#define TURN_BYTES 64u

#define WORDS_MAX (7u + 2u * ORDERS_MAX)

struct cluster {
    struct redis_place place;
    char prefix[160], me[17];
    pthread_t thread;
    int event; /* an order, or the end */
    atomic_uint brokers;
    atomic_bool news;       /* there may be something to hear */
    atomic_uint mismatched; /* labels that were ignored because of a wrong check */
    pthread_mutex_t lock;
    struct order_list orders; /* not sent yet; under the lock, as are the next three */
    uint32_t orders_count;    /* includes those that are being sent */
    char *heard;              /* not taken yet; NULL = nothing new */
    bool stop;
    /* of the thread */
    struct redis_finder finder;
    redisContext *redis;
    uint64_t retry_us, beat_us;
    struct order_list sending;
    char turn[TURN_BYTES]; /* EPOCH/COUNT of the labels that were heard last; "" = none yet */
    char *known;           /* these labels, one a line, to write them again when Redis has lost them; NULL = none */
    bool told_down, told_waiting;
    const char *words[WORDS_MAX]; /* of one command */
    size_t words_bytes[WORDS_MAX];
    int words_count;
};

/* clang-format off */
/* KEYS: prefix. ARGV: me, ms for which I count as alive (0 = goodbye), the turn that I know, then pairs of field and
   value. -> brokers, turn, [labels] when the turn has changed */
static const char plan[] =
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
    "for _, key in ipairs({':brokers', ':labels', ':turns', ':epoch'}) do\n" /* so that a full cache evicts other keys first */
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
static bool orders_add(struct cluster *cluster, struct order *order)
{
    mutex_take(&cluster->lock);
    bool room = cluster->orders_count < ORDERS_MAX;
    if (room) {
        TAILQ_INSERT_TAIL(&cluster->orders, order, in_list);
        cluster->orders_count++;
        PEN_ASSERT(cluster->orders_count <= ORDERS_MAX, "orders under way have a cap");
    }
    mutex_give(&cluster->lock);
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

/* Redis has lost the labels: sends those that are known here again, unless another broker has set them anew. An
   order sent just before is newer, even one that took a label back. */
static void restore(struct cluster *cluster)
{
    char *all = cluster->known, *rest = all, *line;
    cluster->known = NULL;
    while (rest && (line = strsep(&rest, "\n")) != NULL) {
        struct order *order = *line ? order_new(line, "?") : NULL;
        if (order && (list_has(&cluster->sending, order->field) || !orders_add(cluster, order)))
            free(order);
    }
    free(all);
}

/* ---- one word to Redis and back ---- */

static void add(struct cluster *cluster, const char *text)
{
    PEN_ASSERT((unsigned)cluster->words_count < WORDS_MAX, "a command has room for all orders under way");
    cluster->words[cluster->words_count] = text;
    cluster->words_bytes[cluster->words_count++] = strlen(text);
}

static void compose(struct cluster *cluster, const char *alive_ms)
{
    const struct order *order;
    cluster->words_count = 0;
    add(cluster, "EVAL");
    add(cluster, plan);
    add(cluster, "1");
    add(cluster, cluster->prefix);
    add(cluster, cluster->me);
    add(cluster, alive_ms);
    add(cluster, cluster->turn);
    mutex_take(&cluster->lock);
    TAILQ_CONCAT(&cluster->sending, &cluster->orders, in_list);
    mutex_give(&cluster->lock);
    TAILQ_FOREACH(order, &cluster->sending, in_list)
    {
        add(cluster, order->field);
        add(cluster, order->value);
    }
}

static void hear(struct cluster *cluster, const char *turn, const redisReply *labels)
{
    uint32_t mismatched = 0;
    char *known = strndup(labels->str, labels->len), *heard = NULL;
    if (known && (mismatched = orders_clean(known)) > 0)
        log_event(LOG_WARN, "labels_mismatch", "labels=%u reason=%s", mismatched,
                  "Redis has them under another model or label than they were set for; they are not believed");
    if (known)
        heard = strdup(known);
    atomic_fetch_add(&cluster->mismatched, mismatched);
    if (!known || !heard) {
        free(known);
        free(heard);
        return; /* the turn is not changed, so Redis sends the labels again */
    }
    snprintf(cluster->turn, sizeof cluster->turn, "%s", turn);
    free(cluster->known);
    cluster->known = known;
    mutex_take(&cluster->lock);
    free(cluster->heard);
    cluster->heard = heard;
    mutex_give(&cluster->lock);
    atomic_store(&cluster->news, true);
}

static void count_brokers(struct cluster *cluster, long long count)
{
    unsigned now = count < 1 ? 1 : count > 1000 ? 1000 : (unsigned)count;
    if (atomic_exchange(&cluster->brokers, now) != now)
        log_event(LOG_INFO, "brokers_counted", "brokers=%u", now);
}

static void go_down(struct cluster *cluster, const char *reason)
{
    if (!cluster->told_down)
        log_event(LOG_WARN, "commons_down", "host=%s port=%d reason=%s", cluster->finder.at.host,
                  cluster->finder.at.port, reason);
    cluster->told_down = true;
    if (cluster->redis)
        redisFree(cluster->redis);
    cluster->redis = NULL;
    cluster->retry_us = clock_now_us() + BEAT_US;
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

/* kept: those that were sent are where a failover finds them; else they stay under way, and are sent again. */
static void orders_sent(struct cluster *cluster, bool kept)
{
    struct order *order;
    if (kept)
        list_free(&cluster->sending);
    mutex_take(&cluster->lock);
    cluster->orders_count = 0;
    TAILQ_FOREACH(order, &cluster->orders, in_list)
    cluster->orders_count++;
    TAILQ_FOREACH(order, &cluster->sending, in_list)
    cluster->orders_count++;
    mutex_give(&cluster->lock);
}

static void read_reply(struct cluster *cluster, const redisReply *reply, bool goodbye, bool kept)
{
    const char *turn = reply->element[1]->str;
    if (!goodbye)
        count_brokers(cluster, reply->element[0]->integer);
    if (!goodbye && reply->elements == 3) {
        if (cluster->known && *cluster->known && !same_epoch(cluster->turn, turn))
            restore(cluster);
        else
            hear(cluster, turn, reply->element[2]);
    }
    orders_sent(cluster, kept);
}

/* Orders count as kept when as many replicas have them as --redis-replicas says: a master that dies a moment later
   would take them along otherwise. */
static bool orders_kept(struct cluster *cluster)
{
    char reason[160];
    int replicas = redis_place_replicas(&cluster->place);
    if (replicas == 0 || TAILQ_EMPTY(&cluster->sending))
        return true;
    bool kept = redis_replicated(cluster->redis, replicas, reason, sizeof reason);
    if (!kept && !cluster->told_waiting)
        log_event(LOG_WARN, "labels_not_replicated", "reason=%s", reason);
    cluster->told_waiting = !kept;
    return kept;
}

/* When a message was not answered, it is sent again, its orders first: sending an order twice does no harm. */
static void beat(struct cluster *cluster, uint64_t alive_us)
{
    char alive_ms[24], reason[160] = "it gave an answer that no script of ours gives";
    snprintf(alive_ms, sizeof alive_ms, "%" PRIu64, alive_us / 1000);
    compose(cluster, alive_ms);
    redisReply *reply = redisCommandArgv(cluster->redis, cluster->words_count, cluster->words, cluster->words_bytes);
    if (is_reply(reply)) {
        read_reply(cluster, reply, alive_us == 0, orders_kept(cluster));
        cluster->beat_us = clock_now_us() + BEAT_US;
    } else {
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            snprintf(reason, sizeof reason, "%.150s", reply ? reply->str : redis_reason(cluster->redis));
        go_down(cluster, reason);
    }
    freeReplyObject(reply);
}

static void come_up(struct cluster *cluster)
{
    char reason[160];
    PEN_ASSERT(!cluster->redis, "one connection at a time");
    cluster->redis = redis_find(&cluster->finder, cluster->prefix, ANSWER_US, reason, sizeof reason);
    if (!cluster->redis) {
        go_down(cluster, reason);
        return;
    }
    if (cluster->told_down)
        log_event(LOG_INFO, "commons_up", "host=%s port=%d", cluster->finder.at.host, cluster->finder.at.port);
    cluster->told_down = false;
    cluster->beat_us = 0;
}

/* ---- the thread ---- */

static bool orders_wait(struct cluster *cluster, bool *ret_stop)
{
    mutex_take(&cluster->lock);
    bool wait = cluster->orders_count > 0;
    PEN_ASSERT(wait || TAILQ_EMPTY(&cluster->orders), "an order that waits is counted");
    *ret_stop = cluster->stop;
    mutex_give(&cluster->lock);
    return wait;
}

static void sleep_until(struct cluster *cluster, uint64_t until_us)
{
    struct pollfd events[2] = {{.fd = cluster->event, .events = POLLIN},
                               {.fd = redis_finder_descriptor(&cluster->finder), .events = POLLIN}};
    uint64_t now_us = clock_now_us(), count;
    int ms = until_us > now_us ? (int)((until_us - now_us) / 1000 + 1) : 0;
    if (poll(events, 2, ms) <= 0)
        return;
    if (events[1].revents && redis_finder_moved(&cluster->finder)) {
        if (cluster->redis)
            go_down(cluster, "the Sentinels have another master");
        cluster->retry_us = 0;
    }
    if (events[0].revents && read(cluster->event, &count, sizeof count) < 0)
        return; /* another thread's wake was taken already */
}

static void *run(void *context)
{
    struct cluster *cluster = context;
    bool stop = false;
    while (!stop) {
        sleep_until(cluster, cluster->redis ? cluster->beat_us : cluster->retry_us);
        bool orders = orders_wait(cluster, &stop);
        uint64_t now_us = clock_now_us();
        if (!cluster->redis && !stop && now_us >= cluster->retry_us)
            come_up(cluster);
        if (cluster->redis && (stop || orders || now_us >= cluster->beat_us))
            beat(cluster, stop ? 0 : ALIVE_US);
    }
    if (cluster->redis)
        redisFree(cluster->redis);
    cluster->redis = NULL;
    redis_finder_fini(&cluster->finder);
    return NULL;
}

/* ---- for the broker's loop ---- */

enum pen_status cluster_new(const struct redis_place *place, const char *namespace, uint64_t broker_uuid,
                            struct cluster **ret_cluster, struct pen_error *reterr)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for what brokers share in Redis");
    cluster->place = *place;
    redis_finder_init(&cluster->finder, &cluster->place);
    snprintf(cluster->prefix, sizeof cluster->prefix,
             place->kind == REDIS_CLUSTER ? "{%.128s:commons}" : "%.128s:commons", namespace);
    snprintf(cluster->me, sizeof cluster->me, "%016" PRIx64, broker_uuid);
    TAILQ_INIT(&cluster->orders);
    TAILQ_INIT(&cluster->sending);
    mutex_init(&cluster->lock);
    atomic_init(&cluster->brokers, 1);
    atomic_init(&cluster->mismatched, 0);
    cluster->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = cluster->event < 0 ? errno : pthread_create(&cluster->thread, NULL, run, cluster);
    if (error == 0) {
        *ret_cluster = cluster;
        return PEN_OK;
    }
    enum pen_status status = pen_error_set(
        reterr, PEN_ERR_IO, "cannot start the thread of what brokers share in Redis: %s", strerror(error));
    if (cluster->event >= 0)
        close(cluster->event);
    mutex_fini(&cluster->lock);
    free(cluster);
    return status;
}

static void wake(const struct cluster *cluster)
{
    uint64_t one = 1;
    if (write(cluster->event, &one, sizeof one) < 0)
        return; /* it is readable already */
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    mutex_take(&cluster->lock);
    cluster->stop = true;
    mutex_give(&cluster->lock);
    wake(cluster);
    pthread_join(cluster->thread, NULL);
    list_free(&cluster->orders);
    list_free(&cluster->sending);
    free(cluster->heard);
    free(cluster->known);
    close(cluster->event);
    mutex_fini(&cluster->lock);
    free(cluster);
}

uint32_t cluster_brokers(const struct cluster *cluster)
{
    return cluster ? atomic_load(&cluster->brokers) : 1;
}

uint32_t cluster_mismatched(const struct cluster *cluster)
{
    return cluster ? atomic_load(&cluster->mismatched) : 0;
}

void cluster_tell(struct cluster *cluster, const char *text)
{
    if (!cluster)
        return;
    struct order *order = order_new(text, "");
    if (order && orders_add(cluster, order)) {
        wake(cluster);
        return;
    }
    log_event(LOG_WARN, "order_not_told", "order=%s reason=%s", text,
              order ? "too many wait for Redis" : "there is no memory for it");
    free(order);
}

bool cluster_hear(struct cluster *cluster, char **ret_orders)
{
    if (!cluster || !atomic_load(&cluster->news))
        return false;
    mutex_take(&cluster->lock);
    bool ready = cluster->orders_count == 0 && cluster->heard;
    if (ready) {
        *ret_orders = cluster->heard;
        cluster->heard = NULL;
        atomic_store(&cluster->news, false);
    }
    mutex_give(&cluster->lock);
    return ready;
}
