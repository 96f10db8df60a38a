/* Sessions, kept replies and the memory cache. */
#include <criterion/criterion.h>
#include <string.h>

#include "cache_memory.h"
#include "metrics.h"
#include "patch.h"
#include "session.h"
#include "wire.h"

/* ---- sessions ---- */

static struct shared_message *shared_message_of(size_t bytes)
{
    zmq_msg_t frame;
    struct shared_message *shared = shared_message_new(1);
    zmq_msg_init_size(&frame, bytes);
    memset(zmq_msg_data(&frame), 0, bytes);
    shared_message_take(shared, 0, &frame);
    zmq_msg_close(&frame);
    return shared;
}

static struct job *done_job(struct jobs *jobs, struct sessions *sessions, struct session *session, uint64_t sequence,
                            size_t bytes, uint64_t now_us)
{
    struct job *job = jobs_new(jobs, (struct job_id){session->uuid, sequence});
    session_add(session, job);
    job->reply = shared_message_of(bytes);
    job->state = JOB_DONE;
    reply_keep(sessions, job, now_us);
    return job;
}

Test(session, acknowledgement_forgets_all_up_to_it_in_any_order_of_completion)
{
    struct jobs jobs;
    struct sessions sessions;
    jobs_init(&jobs);
    cr_assert_eq(sessions_init(&sessions, &jobs, 1000000, 1000000), PEN_OK);
    struct session *session = session_new(&sessions, 5);
    session_connect(&sessions, session, 1, -1, 0);
    static const uint64_t order[] = {3, 1, 5, 2, 4};
    for (size_t i = 0; i < 5; i++)
        done_job(&jobs, &sessions, session, order[i], 10, 1);
    replies_acknowledge(&sessions, session, 3);
    for (uint64_t i = 1; i <= 5; i++)
        cr_assert_eq(jobs_find(&jobs, (struct job_id){5, i}) != NULL, i > 3, "%lu", (unsigned long)i);
    cr_assert_eq(sessions.kept_count, 2);
    session_free(&sessions, session);
    cr_assert_eq(sessions.kept_bytes, 0);
    sessions_fini(&sessions);
    jobs_fini(&jobs);
}

Test(session, kept_replies_are_bounded_by_bytes_and_age)
{
    struct jobs jobs;
    struct sessions sessions;
    jobs_init(&jobs);
    sessions_init(&sessions, &jobs, 3 * (1000 + sizeof(struct job)), 50);
    struct session *session = session_new(&sessions, 5);
    for (uint64_t i = 1; i <= 4; i++)
        done_job(&jobs, &sessions, session, i, 1000, i * 10);
    cr_assert_null(jobs_find(&jobs, (struct job_id){5, 1}), "the oldest gives way");
    cr_assert_eq(sessions.kept_count, 3);
    replies_age(&sessions, 80);
    cr_assert_eq(sessions.kept_count, 1, "those of 20 and 30 are 50 old");
    done_job(&jobs, &sessions, session, 9, 100000, 90);
    cr_assert_eq(sessions.kept_count, 0, "one that is larger than the bound is not kept, nor are the others");
    sessions_fini(&sessions);
    jobs_fini(&jobs);
}

Test(session, grace_begins_when_the_connection_is_lost)
{
    struct jobs jobs;
    struct sessions sessions;
    jobs_init(&jobs);
    sessions_init(&sessions, &jobs, 1000, 1000);
    struct session *session = session_new(&sessions, 5);
    session->grace_us = 100;
    session_connect(&sessions, session, 11, -1, 0);
    cr_assert_not(session_over(session, 100000));
    session_disconnect(session, 1000);
    cr_assert_not(session_over(session, 1099));
    cr_assert(session_over(session, 1100));
    session_connect(&sessions, session, 12, -1, 1100);
    cr_assert_not(session_over(session, 5000));
    cr_assert_null(session_by_peer(&sessions, 11));
    cr_assert_eq(session_by_peer(&sessions, 12), session);
    sessions_fini(&sessions);
    jobs_fini(&jobs);
}

Test(session, a_client_may_ask_for_ten_minutes_of_grace_and_no_more)
{
    struct session session = {.grace_us = 0};
    session_grace(&session, 599999999);
    cr_expect_eq(session.grace_us, 599999999);
    session_grace(&session, 600000001);
    cr_expect_eq(session.grace_us, 600000000);
}

Test(session, tenants_are_interned_and_checked)
{
    struct jobs jobs;
    struct sessions sessions;
    struct pen_error error = {.status = PEN_OK};
    const struct tenant *a = NULL, *b = NULL;
    jobs_init(&jobs);
    sessions_init(&sessions, &jobs, 1000, 1000);
    cr_assert_eq(tenant_intern(&sessions, "", &a, &error), PEN_OK);
    cr_assert_str_eq(a->name, "default");
    cr_assert_eq(tenant_intern(&sessions, "blue", &a, &error), PEN_OK);
    cr_assert_eq(tenant_intern(&sessions, "blue", &b, &error), PEN_OK);
    cr_assert_eq(a, b);
    cr_assert_eq(tenant_intern(&sessions, "a:b", &b, &error), PEN_ERR_INVALID,
                 "a colon would run into the key in Redis");
    sessions_fini(&sessions);
    jobs_fini(&jobs);
}

Test(session, a_tenant_that_nobody_holds_makes_room_for_another)
{
    struct jobs jobs;
    struct sessions sessions;
    struct pen_error error = {.status = PEN_OK};
    const struct tenant *tenant = NULL, *first = NULL, *held = NULL;
    char name[32];
    jobs_init(&jobs);
    sessions_init(&sessions, &jobs, 1000, 1000);
    cr_assert_eq(tenant_intern(&sessions, "first", &first, &error), PEN_OK);
    for (uint32_t i = 0; i < 3 * TENANTS_MAX; i++) {
        snprintf(name, sizeof name, "t%u", i);
        cr_assert_eq(tenant_intern(&sessions, name, &tenant, &error), PEN_OK, "%s: %s", name, error.text);
        cr_assert_str_eq(tenant->name, name);
        cr_assert(i == 0 || tenant->serial == i + 2, "a number of its own");
        if (i == 100)
            tenant_retain(held = tenant);
    }
    cr_expect_str_eq(held->name, "t100", "somebody holds it");
    cr_expect_str_eq(first->name, "first", "metrics have a row for it");
    for (uint32_t i = METRICS_TENANTS_MAX; i < TENANTS_MAX; i++)
        tenant_retain(sessions.tenants[i]);
    cr_expect_eq(tenant_intern(&sessions, "one_more", &tenant, &error), PEN_ERR_BUSY);
    cr_expect(strstr(error.text, "1024 tenants"), "%s", error.text);
    tenant_release(held);
    cr_expect_eq(tenant_intern(&sessions, "one_more", &tenant, &error), PEN_ERR_BUSY, "it is held twice");
    tenant_release(held);
    cr_expect_eq(tenant_intern(&sessions, "one_more", &tenant, &error), PEN_OK);
    cr_expect_eq(tenant, held);
    sessions_fini(&sessions);
    jobs_fini(&jobs);
}

/* ---- the memory cache ---- */

static struct cache_key key_of(uint8_t request)
{
    struct cache_key key = {.tenant = 1, .precision = PRECISION_F32};
    memset(key.request.bytes, request, sizeof key.request.bytes);
    return key;
}

static void put(struct cache_memory *memory, struct cache_key key, size_t bytes, uint64_t now_us)
{
    struct cache_value value = {.shared = shared_message_of(bytes), .precision = PRECISION_F32, .backend = "xnnpack"};
    cache_memory_put(memory, &key, &value, now_us);
    shared_message_release(value.shared);
}

static bool has(struct cache_memory *memory, struct cache_key key, uint64_t now_us)
{
    struct cache_value value;
    return cache_memory_get(memory, &key, now_us, &value);
}

Test(cache_memory, what_was_used_longest_ago_gives_way)
{
    struct cache_memory *memory;
    struct cache_report report = {.kind = ""};
    cr_assert_eq(cache_memory_new(10000, 0, &memory), PEN_OK);
    for (uint8_t i = 0; i < 4; i++)
        put(memory, key_of(i), 2000, 0);
    cr_assert(has(memory, key_of(0), 0), "used: now the youngest");
    put(memory, key_of(9), 2000, 0);
    cr_assert(has(memory, key_of(0), 0));
    cr_assert_not(has(memory, key_of(1), 0));
    cache_memory_report(memory, &report);
    cr_assert_eq(report.entries, 4);
    cr_assert_leq(report.bytes, 10000);
    cr_assert_eq(report.evicted, 1);
    put(memory, key_of(50), 9000, 0);
    cr_assert_not(has(memory, key_of(50), 0), "one value never takes more than a quarter");
    cache_memory_free(memory);
}

Test(cache_memory, every_part_of_the_key_counts)
{
    struct cache_memory *memory;
    cache_memory_new(100000, 0, &memory);
    struct cache_key key = key_of(1), other = key;
    put(memory, key, 100, 0);
    cr_assert(has(memory, key, 0));
    other.tenant = 2;
    cr_assert_not(has(memory, other, 0));
    other = key;
    other.precision = PRECISION_F16_MATH;
    cr_assert_not(has(memory, other, 0));
    other = key;
    other.model.bytes[15] = 1;
    cr_assert_not(has(memory, other, 0));
    other = key;
    other.request.bytes[15] ^= 1;
    cr_assert_not(has(memory, other, 0));
    cache_memory_free(memory);
}

Test(cache_memory, values_age)
{
    struct cache_memory *memory;
    cache_memory_new(100000, 1000, &memory);
    put(memory, key_of(1), 100, 0);
    cr_assert(has(memory, key_of(1), 999));
    cr_assert_not(has(memory, key_of(1), 1000));
    cache_memory_free(memory);
}

static struct cache_report report_of(const struct cache_memory *memory)
{
    struct cache_report report = {.kind = ""};
    cache_memory_report(memory, &report);
    return report;
}

/* What one value of that many bytes costs. */
static uint64_t cost_of(size_t bytes)
{
    struct cache_memory *memory;
    cache_memory_new(1 << 20, 0, &memory);
    put(memory, key_of(1), bytes, 1);
    uint64_t cost = report_of(memory).bytes;
    cache_memory_free(memory);
    return cost;
}

Test(cache_memory, a_value_has_a_quarter_of_it_at_most_and_four_of_those_fill_it)
{
    struct cache_memory *memory;
    uint64_t cost = cost_of(1000);
    cache_memory_new(4 * cost - 1, 0, &memory);
    put(memory, key_of(1), 1000, 1);
    cr_expect_eq(report_of(memory).entries, 0);
    cache_memory_free(memory);
    cache_memory_new(4 * cost, 0, &memory);
    for (uint8_t i = 1; i <= 4; i++)
        put(memory, key_of(i), 1000, 1);
    cr_expect_eq(report_of(memory).bytes, 4 * cost);
    cr_expect_eq(report_of(memory).evicted, 0);
    put(memory, key_of(5), 1000, 1);
    cr_expect(!has(memory, key_of(1), 1) && has(memory, key_of(2), 1));
    cr_expect_eq(report_of(memory).evicted, 1);
    cache_memory_free(memory);
}

Test(cache_memory, the_bytes_and_the_frames_of_a_value_cost)
{
    struct cache_memory *memory;
    struct cache_key key = key_of(1);
    struct cache_value value = {.shared = shared_message_new(3)};
    cr_expect_eq(cost_of(1000) - cost_of(1), 999);
    cr_expect_gt(cost_of(1), sizeof(struct cache_value) + sizeof(zmq_msg_t));
    cache_memory_new(1 << 20, 0, &memory);
    shared_message_make(value.shared, 2, 1);
    cache_memory_put(memory, &key, &value, 1);
    cr_expect_eq(report_of(memory).bytes - cost_of(1), 2 * sizeof(zmq_msg_t));
    shared_message_release(value.shared);
    cache_memory_free(memory);
}

Test(cache_memory, a_newer_value_takes_the_place_of_an_older_one)
{
    struct cache_memory *memory;
    struct cache_key key = key_of(1);
    struct cache_value value = {.age_us = 77};
    cache_memory_new(1 << 20, 0, &memory);
    cr_expect_not(cache_memory_get(memory, &key, 1, &value));
    cr_expect_eq(value.age_us, 77);
    put(memory, key, 1000, 1);
    put(memory, key, 2000, 5);
    cr_expect_eq(report_of(memory).entries, 1);
    cr_expect_eq(report_of(memory).bytes, cost_of(2000));
    cr_expect_eq(report_of(memory).evicted, 0);
    cr_assert(cache_memory_get(memory, &key, 12, &value));
    cr_expect_eq(shared_message_bytes(value.shared), 2000);
    cr_expect_eq(value.precision, PRECISION_F32);
    cr_expect_str_eq(value.backend, "xnnpack");
    cr_expect_eq(value.age_us, 7);
    put(memory, key, 1 << 19, 20);
    cr_expect_eq(report_of(memory).entries, 0, "the older one is none of this request any more");
    cache_memory_free(memory);
    cache_memory_free(NULL);
}

Test(cache, option_is_parsed_or_refused)
{
    struct cache_options options;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(cache_parse("memory:64MiB", &options, &error), PEN_OK);
    cr_assert_eq(options.bytes_max, 64u << 20);
    cr_assert_eq(cache_parse("redis://127.0.0.1:1234/5", &options, &error), PEN_OK);
    cr_assert_eq(options.redis.seeds[0].port, 1234);
    cr_assert_eq(options.redis.database, 5);
    cr_assert_str_eq(options.redis.seeds[0].host, "127.0.0.1");
    cr_assert_eq(cache_parse("redis://h", &options, &error), PEN_OK);
    cr_assert_eq(options.redis.seeds[0].port, 6379);
    cr_assert_eq(cache_parse("none", &options, &error), PEN_OK);
    cr_assert_eq(options.kind, CACHE_NONE);
    static const char *const bad[] = {"",         "memory",         "memory:",         "memory:-1", "memory:5XB",
                                      "redis://", "redis://h:port", "redis://h:99999", "file:/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(cache_parse(bad[i], &options, &error), PEN_ERR_INVALID, "%s", bad[i]);
}
