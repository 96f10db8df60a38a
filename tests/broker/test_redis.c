/* The Redis cache against a real redis-server: used when it is there, never waited for when it is not. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_get.h"
#include "peer.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

/* The peers here beat no hearts: a busy machine must not lose them. */
#define PATIENT "--heartbeat", "10s", "--liveness", "60s"

struct scene {
    struct pool pool;
    struct process *redis;
    int port;
    char url[64];
    struct peer client, worker;
    uint64_t sequence;
};

static void connect_peers(struct scene *scene)
{
    struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1};
    peer_worker(&scene->worker, scene->pool.workers_endpoint, &one);
    peer_client(&scene->client, scene->pool.clients, 0xC);
}

static void start(struct scene *scene, bool with_redis, const char *more, const char *value)
{
    *scene = (struct scene){.redis = NULL};
    if (with_redis)
        scene->redis = redis_start(&scene->port, NULL);
    else
        scene->port = port_free();
    snprintf(scene->url, sizeof scene->url, "redis://127.0.0.1:%d/3", scene->port);
    pool_start(&scene->pool, (const char *const[]){"--cache", scene->url, "--cache-namespace", "ns", "--cache-deadline",
                                                   "5ms", PATIENT, more, value, NULL});
    connect_peers(scene);
}

static void stop(struct scene *scene)
{
    peer_close(&scene->client);
    peer_close(&scene->worker);
    pool_stop(&scene->pool);
    process_free(scene->redis);
}

static char *state(struct scene *scene)
{
    uint8_t meta[WIRE_META_BYTES];
    struct heard heard = {.count = 0};
    peer_send(&scene->client, envelope_make(FRAME_CONTROL), meta, wire_control(meta, "stats", "", 1));
    if (!peer_expect(&scene->client, &heard, FRAME_CONTROL_REPLY, 5000))
        return NULL;
    Penstock__ControlReply *reply = penstock__control_reply__unpack(NULL, heard.env.meta_bytes, heard.meta);
    char *text = strdup(reply->stats->cache_state);
    penstock__control_reply__free_unpacked(reply, NULL);
    heard_fini(&heard);
    return text;
}

static void await_state(struct scene *scene, const char *wanted)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(10000) * 1000;
    for (;;) {
        char *text = state(scene);
        bool there = text && strncmp(text, wanted, strlen(wanted)) == 0;
        cr_assert(there || support_now_us() < end_us, "state is '%s', not '%s'", text, wanted);
        free(text);
        if (there)
            return;
        support_sleep_ms(20);
    }
}

/* Runs a job of these bytes. Returns whether it was cached; *ret_us = how long the client waited. */
static bool job(struct scene *scene, uint8_t fill, uint64_t *ret_us)
{
    struct heard heard = {.count = 0}, work = {.count = 0};
    struct wire_job request = {.id = {0xC, ++scene->sequence}, .model = "echo", .fill = fill};
    uint64_t start_us = support_now_us();
    peer_submit(&scene->client, &request);
    bool result = false;
    while (!result) {
        cr_assert_lt(support_now_us() - start_us, 20000000u);
        if (peer_expect(&scene->worker, &work, FRAME_SUBMIT, 1))
            peer_answer(&scene->worker, &work, 10);
        result = peer_expect(&scene->client, &heard, FRAME_RESULT, 1);
    }
    *ret_us = support_now_us() - start_us;
    cr_assert_eq(heard.env.status, PEN_OK);
    Penstock__ResultMeta *meta = penstock__result_meta__unpack(NULL, heard.env.meta_bytes, heard.meta);
    bool cached = meta->cached;
    cr_assert_eq(meta->outputs[0]->data.data[0], 7);
    penstock__result_meta__free_unpacked(meta, NULL);
    heard_fini(&heard);
    heard_fini(&work);
    return cached;
}

/* Values are stored after the reply: a moment later they are there. */
static void await_hit(struct scene *scene, uint8_t fill)
{
    uint64_t us;
    bool cached = false;
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(20000) * 1000;
    while (!cached &&
           support_now_us() < end_us) /* on a busy machine Redis may be too late, and is left alone for a second */
        cached = job(scene, fill, &us);
    cr_assert(cached);
}

Test(redis, results_are_stored_with_prefix_and_expiry_and_survive_the_broker, .timeout = 120)
{
    struct scene scene;
    uint64_t us;
    start(&scene, true, "--cache-ttl", "60s");
    await_state(&scene, "ok");
    cr_assert_not(job(&scene, 1, &us));
    await_hit(&scene, 1);
    char *keys = redis_cli(scene.port, (const char *const[]){"-n", "3", "KEYS", "ns:1:*", NULL});
    cr_assert_eq(strncmp(keys, "ns:1:default:", 13), 0, "%s", keys);
    keys[strcspn(keys, "\n")] = '\0';
    char *ttl = redis_cli(scene.port, (const char *const[]){"-n", "3", "PTTL", keys, NULL});
    cr_assert(atoi(ttl) > 30000 && atoi(ttl) <= 60001, "%s", ttl);
    free(ttl);
    peer_close(&scene.client);
    peer_close(&scene.worker);
    pool_restart_broker(&scene.pool, (const char *const[]){"--cache", scene.url, "--cache-namespace", "ns",
                                                           "--cache-deadline", "1s", PATIENT, NULL});
    connect_peers(&scene);
    await_state(&scene, "ok");
    cr_assert(job(&scene, 1, &us), "known to the next broker too");
    char *spoiled = redis_cli(scene.port, (const char *const[]){"-n", "3", "SETRANGE", keys, "60", "spoiled", NULL});
    free(spoiled);
    cr_assert_not(job(&scene, 1, &us), "a broken value is no value");
    free(keys);
    stop(&scene);
}

Test(redis, down_at_start_costs_nothing_and_is_found_when_it_comes, .timeout = 120)
{
    struct scene scene;
    uint64_t us, worst_us = 0;
    start(&scene, false, NULL, NULL);
    await_state(&scene, "open: Connection refused");
    for (uint8_t i = 0; i < 50; i++) {
        cr_assert_not(job(&scene, i, &us));
        worst_us = us > worst_us ? us : worst_us;
    }
    cr_assert_lt(worst_us, (uint64_t)support_slow(5000) * 1000); /* how much it is: tests/bench/blackhole.py */
    stop(&scene);
}

Test(redis, frozen_redis_delays_a_job_by_its_deadline_at_most_and_the_breaker_opens, .timeout = 120)
{
    struct scene scene;
    uint64_t us, worst_us = 0;
    start(&scene, true, NULL, NULL);
    await_state(&scene, "ok");
    job(&scene, 1, &us);
    await_hit(&scene, 1);
    process_signal(scene.redis, SIGSTOP);
    for (uint8_t i = 0; i < 50; i++) {
        cr_assert_not(job(&scene, (uint8_t)(100 + i), &us));
        worst_us = us > worst_us ? us : worst_us;
    }
    printf("worst_us=%llu\n", (unsigned long long)worst_us);
    cr_assert_lt(worst_us, (uint64_t)support_slow(5000) * 1000); /* how much it is: tests/bench/blackhole.py */
    await_state(&scene, "open");
    process_signal(scene.redis, SIGCONT);
    await_state(&scene, "ok");
    await_hit(&scene, 1);
    stop(&scene);
}

Test(redis, killed_and_restarted_redis_is_used_again, .timeout = 120)
{
    struct scene scene;
    uint64_t us;
    char port[16];
    start(&scene, true, NULL, NULL);
    await_state(&scene, "ok");
    job(&scene, 1, &us);
    process_signal(scene.redis, SIGKILL);
    process_wait(scene.redis, 5000);
    await_state(&scene, "open");
    cr_assert_not(job(&scene, 2, &us));
    process_free(scene.redis);
    snprintf(port, sizeof port, "%d", scene.port);
    scene.redis = process_start_path(
        (const char *const[]){"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", NULL}, NULL);
    await_state(&scene, "ok");
    job(&scene, 2, &us);
    await_hit(&scene, 2);
    stop(&scene);
}

Test(redis, values_beyond_the_cap_are_left_out, .timeout = 120)
{
    struct scene scene;
    uint64_t us;
    start(&scene, true, "--cache-value-bytes", "100B");
    await_state(&scene, "ok");
    for (int i = 0; i < 5; i++) {
        cr_assert_not(job(&scene, 1, &us));
        support_sleep_ms(20);
    }
    stop(&scene);
}

/* ---- values under other keys ---- */

#define KEYS    6u
#define CLIENT  UINT64_C(0x1122334455667788)
#define UUID_LE "\x88\x77\x66\x55\x44\x33\x22\x11"

/* The worker answers with the job's own byte. Returns the answer's; *ret_cached: it came from the cache. */
static uint8_t told(struct scene *scene, uint8_t fill, bool *ret_cached)
{
    uint8_t meta[WIRE_META_BYTES], value;
    struct heard heard = {.count = 0}, work = {.count = 0};
    struct wire_job request = {.id = {CLIENT, ++scene->sequence}, .model = "echo", .fill = fill};
    peer_submit(&scene->client, &request);
    for (int turn = 0; !peer_expect(&scene->client, &heard, FRAME_RESULT, 1); turn++) {
        cr_assert_lt(turn, 10000);
        if (!peer_expect(&scene->worker, &work, FRAME_SUBMIT, 1))
            continue;
        struct envelope env = envelope_make(FRAME_RESULT);
        env.job = work.env.job;
        env.digest = work.env.digest;
        peer_send(&scene->worker, env, meta, wire_result(meta, fill, "xnnpack", PRECISION_F32, 10, NULL));
    }
    cr_assert_eq(heard.env.status, PEN_OK);
    Penstock__ResultMeta *result = penstock__result_meta__unpack(NULL, heard.env.meta_bytes, heard.meta);
    value = result->outputs[0]->data.data[0];
    *ret_cached = result->cached;
    penstock__result_meta__free_unpacked(result, NULL);
    heard_fini(&heard);
    heard_fini(&work);
    return value;
}

static void await_all_cached(struct scene *scene)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(20000) * 1000;
    for (uint8_t fill = 1; fill <= KEYS; fill++) {
        for (bool cached = false; !cached;) {
            cr_assert_lt(support_now_us(), end_us);
            cr_assert_eq(told(scene, fill, &cached), fill);
        }
    }
}

/* Each value goes to the next key, the last one's to the first; true: no value has the client's uuid in it. */
static bool rotate(const struct scene *scene)
{
    static const char script[] = "local keys = redis.call('KEYS', 'ns:1:*') local values, clean = {}, 1 "
                                 "for i, key in ipairs(keys) do values[i] = redis.call('GET', key) "
                                 "if string.find(values[i], ARGV[1], 1, true) then clean = 0 end end "
                                 "for i, key in ipairs(keys) do redis.call('SET', key, values[i % #keys + 1]) end "
                                 "return #keys * 10 + clean";
    char *text = redis_cli(scene->port, (const char *const[]){"-n", "3", "EVAL", script, "0", UUID_LE, NULL});
    int answer = atoi(text);
    cr_assert_eq(answer / 10, KEYS, "%s", text);
    free(text);
    return answer % 10 == 1;
}

static unsigned long long metric(const char *address, const char *name)
{
    char *body = NULL;
    cr_assert_eq(http_get(address, "/metrics", &body), 200);
    const char *at = strstr(body, name);
    cr_assert_not_null(at, "%s", name);
    unsigned long long value = strtoull(at + strlen(name), NULL, 10);
    free(body);
    return value;
}

Test(redis, a_value_under_another_key_is_not_believed, .timeout = 120)
{
    struct scene scene = {.redis = NULL};
    struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1};
    char http[32];
    snprintf(http, sizeof http, "127.0.0.1:%d", port_free());
    scene.redis = redis_start(&scene.port, NULL);
    snprintf(scene.url, sizeof scene.url, "redis://127.0.0.1:%d/3", scene.port);
    pool_start(&scene.pool, (const char *const[]){"--cache", scene.url, "--cache-namespace", "ns", "--cache-deadline",
                                                  "1s", "--http", http, PATIENT, NULL});
    peer_worker(&scene.worker, scene.pool.workers_endpoint, &one);
    peer_client(&scene.client, scene.pool.clients, CLIENT);
    await_state(&scene, "ok");
    await_all_cached(&scene);
    cr_expect(rotate(&scene), "who asked first is nobody else's business");
    for (uint8_t fill = 1; fill <= KEYS; fill++) {
        bool cached;
        cr_expect_eq(told(&scene, fill, &cached), fill, "the answer is that of its own request");
        cr_expect_not(cached);
    }
    cr_expect_eq(metric(http, "\npenstock_cache_mismatches_total "), KEYS);
    await_all_cached(&scene); /* what was computed again has taken its place */
    stop(&scene);
}
