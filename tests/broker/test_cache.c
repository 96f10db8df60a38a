/* The cache of results as the broker sees it: its setting, what it hands over to memory and to Redis, and the values that it reads. Redis is played. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "cache_redis.h"
#include "wire.h"

/* ---- Redis, as it is played ---- */

static struct cache_redis *const there = (struct cache_redis *)(uintptr_t)0x10;
static struct {
    unsigned freed, asked, put, polled, given_up;
    bool down, speechless; /* it cannot begin: with a sentence, and without one */
    bool answers;
} redis;

enum pen_status __wrap_cache_redis_new(void *context, const struct cache_options *options,
                                       struct cache_redis **ret_redis, struct pen_error *reterr);
void __wrap_cache_redis_free(struct cache_redis *of);
bool __wrap_cache_redis_ask(struct cache_redis *of, const struct cache_key *key, const char *tenant,
                            uint64_t *ret_question);
void __wrap_cache_redis_put(struct cache_redis *of, const struct cache_key *key, const char *tenant,
                            const struct shared_message *shared);
bool __wrap_cache_redis_poll(struct cache_redis *of, uint64_t *ret_question, bool *ret_hit,
                             struct cache_value *ret_value);
void __wrap_cache_redis_give_up(struct cache_redis *of);
void *__wrap_cache_redis_socket(struct cache_redis *of);
void __wrap_cache_redis_report(const struct cache_redis *of, struct cache_report *report);

enum pen_status __wrap_cache_redis_new(void *context, const struct cache_options *options,
                                       struct cache_redis **ret_redis, struct pen_error *reterr)
{
    (void)context;
    (void)options;
    if (redis.down)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no Redis today");
    if (redis.speechless)
        return PEN_ERR_NO_MEMORY;
    *ret_redis = there;
    return PEN_OK;
}

void __wrap_cache_redis_free(struct cache_redis *of)
{
    redis.freed += of != NULL;
}

bool __wrap_cache_redis_ask(struct cache_redis *of, const struct cache_key *key, const char *tenant,
                            uint64_t *ret_question)
{
    cr_expect(of == there && key && strcmp(tenant, "acme") == 0);
    *ret_question = ++redis.asked;
    return redis.answers;
}

void __wrap_cache_redis_put(struct cache_redis *of, const struct cache_key *key, const char *tenant,
                            const struct shared_message *shared)
{
    cr_expect(of == there && key && shared && strcmp(tenant, "acme") == 0);
    redis.put++;
}

bool __wrap_cache_redis_poll(struct cache_redis *of, uint64_t *ret_question, bool *ret_hit,
                             struct cache_value *ret_value)
{
    (void)ret_value;
    cr_expect(of == there);
    *ret_question = ++redis.polled;
    *ret_hit = true;
    return redis.answers;
}

void __wrap_cache_redis_give_up(struct cache_redis *of)
{
    cr_expect(of == there);
    redis.given_up++;
}

void *__wrap_cache_redis_socket(struct cache_redis *of)
{
    return of == there ? &redis : NULL;
}

void __wrap_cache_redis_report(const struct cache_redis *of, struct cache_report *report)
{
    cr_expect(of == there);
    strcpy(report->state, "open: played");
}

/* ---- values ---- */

static struct shared_message *message_of(struct envelope env, const uint8_t *meta, size_t bytes, size_t frames)
{
    struct shared_message *shared = shared_message_new(frames);
    env.job = (struct job_id){5, 6};
    cr_assert_eq(shared_message_set_header(shared, &env, meta, bytes, NULL), PEN_OK);
    return shared;
}

static struct shared_message *answer_of(uint8_t value)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t bytes = wire_result(meta, value, "xnnpack", PRECISION_F32, 5, NULL);
    return message_of(envelope_make(FRAME_RESULT), meta, bytes, 1);
}

static struct shared_message *answer_as(Penstock__ResultMeta *result)
{
    uint8_t meta[WIRE_META_BYTES];
    return message_of(envelope_make(FRAME_RESULT), meta, penstock__result_meta__pack(result, meta), 1);
}

Test(cache, a_value_says_what_computed_it)
{
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__MeasuredError measured = PENSTOCK__MEASURED_ERROR__INIT;
    struct cache_value value;
    struct shared_message *shared = answer_as(&result);
    cr_assert_eq(cache_value_read(shared, &value), PEN_OK);
    cr_expect(value.shared == shared && value.stored_unix_us == 0 && value.age_us == 0 && !value.repeatable);
    cr_expect(isinf(value.error) && value.error > 0, "nobody has measured it");
    cr_expect_str_eq(value.backend, "");
    shared_message_release(shared);
    result.backend = (char *)(uintptr_t) "xnnpack";
    result.precision = PRECISION_COUNT - 1;
    result.stored_unix_us = 1800000000000000;
    result.measured = &measured;
    measured.largest = 0.25;
    measured.repeatable = true;
    shared = answer_as(&result);
    cr_assert_eq(cache_value_read(shared, &value), PEN_OK);
    cr_expect_str_eq(value.backend, "xnnpack");
    cr_expect_eq(value.precision, PRECISION_COUNT - 1);
    cr_expect_eq(value.stored_unix_us, 1800000000000000);
    cr_expect(value.error == 0.25 && value.repeatable);
    shared_message_release(shared);
    result.precision = PRECISION_COUNT;
    shared = answer_as(&result);
    cr_assert_eq(cache_value_read(shared, &value), PEN_OK);
    cr_expect_eq(value.precision, PRECISION_ANY, "one of a later version");
    shared_message_release(shared);
}

Test(cache, a_backend_has_a_bound)
{
    static char name[CACHE_BACKEND_BYTES + 1];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    struct cache_value value = {.age_us = 77};
    memset(name, 'b', CACHE_BACKEND_BYTES);
    result.backend = name;
    struct shared_message *shared = answer_as(&result);
    cr_expect_eq(cache_value_read(shared, &value), PEN_ERR_CORRUPT);
    cr_expect_eq(value.age_us, 77, "nothing is written");
    shared_message_release(shared);
    name[CACHE_BACKEND_BYTES - 1] = '\0';
    shared = answer_as(&result);
    cr_assert_eq(cache_value_read(shared, &value), PEN_OK);
    cr_expect_str_eq(value.backend, name);
    shared_message_release(shared);
}

Test(cache, what_is_no_whole_result_is_no_value)
{
    static const uint8_t broken[] = {0x2A, 0x7F, 'x'}; /* a text of 127 bytes, of which one is there */
    struct envelope other = envelope_make(FRAME_SUBMIT), result = envelope_make(FRAME_RESULT), longer = result;
    struct cache_value value;
    longer.frames = 1;
    struct shared_message *bad[] = {message_of(other, NULL, 0, 1), message_of(longer, NULL, 0, 1),
                                    message_of(result, NULL, 0, 2), message_of(result, broken, sizeof broken, 1),
                                    shared_message_new(1)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(cache_value_read(bad[i], &value), PEN_ERR_CORRUPT, "%zu", i);
        shared_message_release(bad[i]);
    }
    struct shared_message *whole = message_of(longer, NULL, 0, 2);
    cr_expect_eq(cache_value_read(whole, &value), PEN_OK, "with a raw frame");
    shared_message_release(whole);
}

/* ---- the cache ---- */

static struct cache *cache_of(struct cache_options options)
{
    struct cache *cache = NULL;
    struct pen_error error = {.status = PEN_OK};
    options.deadline_us = 1234;
    cr_assert_eq(cache_new(NULL, &options, &cache, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(cache_deadline_us(cache), 1234);
    return cache;
}

static void put(struct cache *cache, uint8_t request)
{
    struct cache_key key = {.request.bytes = {request}};
    struct cache_value value;
    struct shared_message *shared = answer_of(request);
    cr_assert_eq(cache_value_read(shared, &value), PEN_OK);
    cache_put(cache, &key, "acme", &value, 100);
    shared_message_release(shared);
}

static enum cache_answer get(struct cache *cache, uint8_t request, uint64_t now_us, uint64_t *ret_age_us)
{
    struct cache_key key = {.request.bytes = {request}};
    struct cache_value value = {.age_us = 0};
    uint64_t question = 0;
    enum cache_answer answer = cache_get(cache, &key, "acme", now_us, &value, &question);
    cr_expect_eq(question != 0, answer == CACHE_ASKED || (redis.asked > 0 && answer == CACHE_MISS));
    *ret_age_us = value.age_us;
    return answer;
}

static void expect_report(const struct cache *cache, const char *kind, const char *state, uint64_t entries)
{
    struct cache_report report;
    memset(&report, 0xAA, sizeof report);
    cache_report(cache, &report);
    cr_expect_str_eq(report.kind, kind);
    cr_expect_str_eq(report.state, state);
    cr_expect_eq(report.entries, entries);
    cr_expect(report.evicted == 0 && report.mismatched == 0 && (report.bytes > 0) == (entries > 0));
}

/* No answers come from it, and nobody waits for any. */
static void expect_no_redis(struct cache *cache)
{
    uint64_t question;
    bool hit;
    struct cache_value value;
    cr_expect_not(cache_poll(cache, 0, &question, &hit, &value));
    cr_expect_null(cache_socket(cache));
    cache_give_up(cache, 0);
    cr_expect_eq(redis.polled + redis.given_up + redis.asked + redis.put, 0);
}

Test(cache, none_keeps_nothing)
{
    uint64_t age_us;
    struct cache *cache = cache_of((struct cache_options){.kind = CACHE_NONE});
    put(cache, 1);
    cr_expect_eq(get(cache, 1, 100, &age_us), CACHE_MISS);
    cr_expect_not(cache_enabled(cache));
    expect_report(cache, "none", "ok", 0);
    expect_no_redis(cache);
    cache_free(cache);
    put(NULL, 1);
    cr_expect_not(cache_enabled(NULL));
    cr_expect_eq(cache_deadline_us(NULL), 0);
    expect_report(NULL, "none", "ok", 0);
    expect_no_redis(NULL);
    cache_free(NULL);
    cr_expect_eq(redis.freed, 0);
}

Test(cache, memory_answers_at_once)
{
    uint64_t age_us;
    struct cache *cache = cache_of((struct cache_options){.kind = CACHE_MEMORY, .bytes_max = 1 << 20, .ttl_us = 50});
    put(cache, 1);
    cr_expect(cache_enabled(cache));
    cr_expect_eq(get(cache, 1, 149, &age_us), CACHE_HIT);
    cr_expect_eq(age_us, 49);
    cr_expect_eq(get(cache, 2, 149, &age_us), CACHE_MISS);
    expect_report(cache, "memory", "ok", 1);
    cr_expect_eq(get(cache, 1, 150, &age_us), CACHE_MISS, "it is too old");
    expect_report(cache, "memory", "ok", 0);
    expect_no_redis(cache);
    cache_free(cache);
    cr_expect_eq(redis.freed, 0);
}

Test(cache, redis_answers_later)
{
    uint64_t age_us, question = 0;
    bool hit = false;
    struct cache_value value;
    struct cache *cache = cache_of((struct cache_options){.kind = CACHE_REDIS, .bytes_max = 1 << 20});
    cr_expect(cache_enabled(cache));
    cr_expect_eq(get(cache, 1, 100, &age_us), CACHE_MISS, "nobody was asked");
    cr_expect_not(cache_poll(cache, 0, &question, &hit, &value));
    redis.answers = true;
    cr_expect_eq(get(cache, 1, 100, &age_us), CACHE_ASKED);
    put(cache, 1);
    cr_expect_eq(redis.put, 1);
    cr_expect(cache_poll(cache, 0, &question, &hit, &value));
    cr_expect(question == 2 && hit);
    cache_give_up(cache, 0);
    cr_expect_eq(redis.given_up, 1);
    cr_expect_eq(cache_socket(cache), &redis);
    expect_report(cache, "redis", "open: played", 0);
    cache_free(cache);
    cr_expect_eq(redis.freed, 1);
}

Test(cache, one_that_cannot_begin_is_not_there)
{
    struct cache *cache = NULL;
    struct cache_options options = {.kind = CACHE_REDIS};
    struct pen_error error = {.status = PEN_OK};
    redis.down = true;
    cr_expect_eq(cache_new(NULL, &options, &cache, &error), PEN_ERR_UNAVAILABLE);
    cr_expect_str_eq(error.text, "no Redis today");
    error = (struct pen_error){.status = PEN_OK};
    redis.down = false;
    redis.speechless = true;
    cr_expect_eq(cache_new(NULL, &options, &cache, &error), PEN_ERR_NO_MEMORY);
    cr_expect_str_eq(error.text, "no memory for the cache");
    cr_expect_eq(cache_new(NULL, &options, &cache, NULL), PEN_ERR_NO_MEMORY);
    cr_expect_null(cache);
}

/* ---- the setting ---- */

Test(cache, sizes_have_units)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0 = it is refused */
    } rows[] = {{"1", 1},
                {"3B", 3},
                {"3K", 3072},
                {"3KiB", 3072},
                {"3KB", 3000},
                {"3M", 3145728},
                {"3MiB", 3145728},
                {"3MB", 3000000},
                {"3G", 3221225472},
                {"3GiB", 3221225472},
                {"3GB", 3000000000},
                {"9223372036854775807", 9223372036854775807u},
                {"9223372036854775808", 0},
                {"8589934591GiB", 9223372035781033984u},
                {"8589934592GiB", 0},
                {"9223372036GB", 9223372036000000000u},
                {"9223372037GB", 0},
                {"/1", 0},
                {":1", 0},
                {" 1", 0},
                {"+1", 0},
                {"1 KiB", 0},
                {"1kib", 0},
                {"1T", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        struct cache_options options = {.kind = CACHE_REDIS, .bytes_max = 77};
        struct pen_error error = {.status = PEN_OK};
        snprintf(text, sizeof text, "memory:%s", rows[i].text);
        enum pen_status status = cache_parse(text, &options, &error);
        cr_expect_eq(status, rows[i].bytes ? PEN_OK : PEN_ERR_INVALID, "%s", text);
        cr_expect_eq(options.kind, rows[i].bytes ? CACHE_MEMORY : CACHE_REDIS, "%s", text);
        cr_expect_eq(options.bytes_max, rows[i].bytes ? rows[i].bytes : 77, "%s", text);
        cr_expect_eq(strstr(error.text, text) != NULL, rows[i].bytes == 0, "%s", error.text);
    }
}

Test(cache, digits_are_the_whole_of_them)
{
    struct cache_options options;
    for (uint64_t digit = 1; digit <= 9; digit++) {
        char text[16];
        snprintf(text, sizeof text, "memory:%u", (unsigned)digit);
        cr_expect_eq(cache_parse(text, &options, NULL), PEN_OK, "%s", text);
        cr_expect_eq(options.bytes_max, digit);
    }
    cr_expect_eq(cache_parse("memory:0", &options, NULL), PEN_OK);
    cr_expect_eq(options.kind, CACHE_NONE, "no memory is no cache");
    options.kind = CACHE_MEMORY;
    cr_expect_eq(cache_parse("none", &options, NULL), PEN_OK);
    cr_expect(options.kind == CACHE_NONE && options.bytes_max == 0);
}

Test(cache, a_place_in_redis_that_is_wrong_is_told_with_the_setting)
{
    struct cache_options options = {.kind = CACHE_MEMORY};
    struct pen_error error = {.status = PEN_OK};
    cr_expect_eq(cache_parse("redis://h:99999", &options, &error), PEN_ERR_INVALID);
    cr_expect_eq(strncmp(error.text, "--cache redis://h:99999", 23), 0, "%s", error.text);
    cr_expect_eq(options.kind, CACHE_MEMORY);
    cr_expect_eq(cache_parse("cluster://a:1,b:2", &options, &error), PEN_OK);
    cr_expect(options.kind == CACHE_REDIS && options.redis.kind == REDIS_CLUSTER && options.redis.seeds_count == 2);
}
