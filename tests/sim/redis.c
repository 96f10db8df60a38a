/* The broker's Redis as the simulation plays it: the functions of cache_redis.h, with answers in any order, late, or never. */
#include <string.h>

#include "cache_redis.h"
#include "client_handler.h"
#include "sim.h"

#define ENTRIES   8u
#define QUESTIONS 64u

struct entry {
    struct cache_key key;
    struct shared_message *shared;
};

struct question {
    uint64_t number;
    struct cache_key key;
    bool answered;
    struct shared_message *shared;
};

/* A broker's connection. */
struct cache_redis {
    struct question questions[QUESTIONS];
    uint32_t questions_count;
    bool used;
};

static struct {
    struct entry entries[ENTRIES];
    struct cache_redis askers[SIM_SIDES];
    uint32_t entries_count;
    uint64_t numbers;
} store;

static void forget_questions(struct cache_redis *redis)
{
    for (uint32_t i = 0; i < redis->questions_count; i++)
        shared_message_release(redis->questions[i].shared);
    redis->questions_count = 0;
}

void redis_forget(void)
{
    for (uint32_t i = 0; i < store.entries_count; i++)
        shared_message_release(store.entries[i].shared);
    for (uint32_t i = 0; i < SIM_SIDES; i++)
        forget_questions(&store.askers[i]);
    store.entries_count = 0;
    store.numbers = 0;
}

enum pen_status cache_redis_new(void *context, const struct cache_options *options, struct cache_redis **ret_redis,
                                struct pen_error *reterr)
{
    (void)context;
    (void)options;
    (void)reterr;
    *ret_redis = &store.askers[store.askers[0].used ? 1 : 0];
    (*ret_redis)->used = true;
    return PEN_OK;
}

/* The store outlives the broker; its questions do not. */
void cache_redis_free(struct cache_redis *redis)
{
    if (!redis)
        return;
    forget_questions(redis);
    redis->used = false;
}

bool cache_redis_ask(struct cache_redis *redis, const struct cache_key *key, const char *tenant, uint64_t *ret_question)
{
    (void)tenant;
    if (redis->questions_count == QUESTIONS)
        return false;
    *ret_question = ++store.numbers;
    redis->questions[redis->questions_count++] = (struct question){.number = *ret_question, .key = *key};
    return true;
}

void cache_redis_put(struct cache_redis *redis, const struct cache_key *key, const char *tenant,
                     const struct shared_message *shared)
{
    (void)redis;
    (void)tenant;
    struct shared_message *copy = shared_message_share(shared, false);
    if (!copy)
        return;
    if (store.entries_count == ENTRIES) {
        shared_message_release(store.entries[0].shared);
        memmove(store.entries, store.entries + 1, (ENTRIES - 1) * sizeof store.entries[0]);
        store.entries_count--;
    }
    store.entries[store.entries_count++] = (struct entry){.key = *key, .shared = copy};
}

bool cache_redis_poll(struct cache_redis *redis, uint64_t *ret_question, bool *ret_hit, struct cache_value *ret_value)
{
    for (uint32_t i = 0; i < redis->questions_count; i++) {
        if (!redis->questions[i].answered)
            continue;
        struct shared_message *shared = redis->questions[i].shared;
        *ret_question = redis->questions[i].number;
        *ret_hit = shared && cache_value_read(shared, ret_value) == PEN_OK;
        if (shared && !*ret_hit)
            shared_message_release(shared);
        redis->questions[i] = redis->questions[--redis->questions_count];
        return true;
    }
    return false;
}

void cache_redis_give_up(struct cache_redis *redis)
{
    (void)redis;
}

void *cache_redis_socket(struct cache_redis *redis)
{
    return redis;
}

void cache_redis_report(const struct cache_redis *redis, struct cache_report *report)
{
    (void)redis;
    (void)report;
}

uint32_t redis_asked(void)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < SIM_SIDES; k++)
        for (uint32_t i = 0; i < store.askers[k].questions_count; i++)
            count += !store.askers[k].questions[i].answered;
    return count;
}

void redis_answer(struct sim *sim)
{
    struct cache_redis *redis = &store.askers[sim->sides_count > 1 ? sim_draw(sim, SIM_SIDES) : 0];
    if (redis->questions_count == 0)
        return;
    struct question *question = &redis->questions[sim_draw(sim, redis->questions_count)];
    question->answered = true;
    for (uint32_t i = 0; i < store.entries_count && !question->shared; i++) {
        if (cache_key_equal(&store.entries[i].key, &question->key))
            question->shared = shared_message_share(store.entries[i].shared, false);
    }
}

void redis_deliver(struct sim *sim)
{
    uint64_t number;
    bool hit;
    struct cache_value value;
    while (cache_poll(sim->side->cache, sim->clock_us, &number, &hit, &value)) {
        client_lookup(&sim->side->broker, number, hit, &value);
        if (hit)
            shared_message_release(value.shared);
    }
}
