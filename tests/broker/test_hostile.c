/*
 * Whatever comes in at either socket, the broker stays up, answers who asked properly, and goes on serving. Random bytes, valid messages with
 * flipped bits, messages out of place, by the ten thousand; PENSTOCK_FUZZ_ROUNDS multiplies them, PENSTOCK_FUZZ_SEED changes them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "desk.h"
#include "client_handler.h"
#include "peer.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true,
                                       .max_batch = 8};

static struct wire_worker worker(uint64_t uuid)
{
    return (struct wire_worker){.uuid = uuid, .name = "w", .slots = 2, .models = &echo, .models_count = 1};
}

static unsigned rounds(unsigned base)
{
    const char *factor = getenv("PENSTOCK_FUZZ_ROUNDS");
    return factor ? base * (unsigned)atoi(factor) : base;
}

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static void seed(void)
{
    const char *text = getenv("PENSTOCK_FUZZ_SEED");
    random_state = text ? strtoull(text, NULL, 10) : 12345;
}

/* One valid header frame of a random type for a side; returns its size. */
static size_t valid_header(uint8_t *bytes, bool from_worker)
{
    static const uint8_t client_types[] = {FRAME_CLIENT_HELLO, FRAME_SUBMIT,  FRAME_SUBMIT, FRAME_CANCEL,
                                           FRAME_ACK,          FRAME_CONTROL, FRAME_PING,   FRAME_PONG};
    static const uint8_t worker_types[] = {FRAME_WORKER_HELLO, FRAME_RESULT, FRAME_RESULT, FRAME_WORKER_UPDATE,
                                           FRAME_HEARTBEAT,    FRAME_PING,   FRAME_DRAIN,  FRAME_PONG};
    static const char *const verbs[] = {"models", "workers", "stats", "ping"};
    uint8_t *meta = bytes + FRAME_ENVELOPE_BYTES;
    size_t meta_bytes = 0, raw;
    struct wire_worker w = worker(1 + draw(3));
    uint8_t type = from_worker ? worker_types[draw(8)] : client_types[draw(8)];
    struct envelope env = envelope_make((enum frame_type)type);
    env.job = (struct job_id){0xABC, 1 + draw(50)};
    if (type == FRAME_CLIENT_HELLO)
        meta_bytes = wire_client_hello(meta, 0xABC + draw(2), "", 0);
    else if (type == FRAME_CONTROL)
        meta_bytes = wire_control(meta, verbs[draw(4)], "", 1);
    else if (type == FRAME_WORKER_HELLO)
        meta_bytes = wire_worker_hello(meta, &w);
    else if (type == FRAME_WORKER_UPDATE)
        meta_bytes = wire_worker_update(meta, &echo, 1);
    else if (type == FRAME_RESULT)
        meta_bytes = wire_result(meta, 1, "xnnpack", PRECISION_F32, 10, NULL);
    else if (type == FRAME_SUBMIT) {
        struct wire_job job = {
            .id = env.job, .model = "echo", .fill = (uint8_t)draw(3), .deadline_us = draw(2) ? 1 + draw(100000) : 0};
        meta_bytes = wire_job(meta, &job, &raw);
        env = wire_job_envelope(&job);
    }
    env.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&env, bytes);
    return FRAME_ENVELOPE_BYTES + meta_bytes;
}

/* Fills `bytes` with up to 4 frames of anything between noise and sense; returns the count. */
static size_t anything(uint8_t *bytes, size_t sizes[4], bool from_worker)
{
    size_t count = draw(8) == 0 ? draw(5) : 1, at = 0;
    for (size_t i = 0; i < count; i++) {
        if (draw(6) == 0) {
            sizes[i] = draw(300);
            for (size_t k = 0; k < sizes[i]; k++)
                bytes[at + k] = (uint8_t)draw(256);
        } else {
            sizes[i] = valid_header(bytes + at, from_worker);
            for (uint32_t flips = draw(3) ? draw(6) : 0; flips > 0; flips--)
                bytes[at + draw((uint32_t)sizes[i])] ^= (uint8_t)(1u << draw(8));
            if (draw(10) == 0)
                sizes[i] = draw((uint32_t)sizes[i] + 1); /* truncated */
        }
        at += sizes[i];
    }
    return count;
}

static void still_serves(struct desk *desk)
{
    struct job_id id = {0x5EED, 1};
    struct wire_worker honest = worker(0x900D);
    desk->clients.forget = desk->workers.forget = false;
    desk_wait(desk, 20000000); /* everything hostile has timed out */
    while (desk_next(&desk->clients, FRAME_WELCOME))
        ; /* refusals of before */
    desk_worker(desk, 7001, &honest);
    desk_client(desk, 7002, 0x5EED);
    desk_submit(desk, 7002, &(struct wire_job){.id = id, .model = "echo", .fill = 5, .no_cache = true});
    desk_result(desk, 7001, id, 6, 1);
    struct sent *last = desk->clients.sent[desk->clients.count - 1];
    cr_assert_eq(last->peer, 7002);
    cr_assert_eq(last->env.type, FRAME_RESULT);
    cr_assert_eq(last->env.status, PEN_OK);
}

Test(hostile, noise_and_mutations_on_the_desk, .timeout = 300)
{
    static uint8_t bytes[4 * (WIRE_META_BYTES + FRAME_ENVELOPE_BYTES)];
    struct desk *desk = desk_new();
    size_t sizes[4];
    desk->options.queue_limit = 100;
    desk_open(desk);
    desk->clients.forget = desk->workers.forget = true;
    seed();
    for (unsigned i = 0; i < rounds(300000); i++) {
        struct message message = {.count = 0};
        bool from_worker = draw(2);
        /* a flipped major version makes the broker ignore a peer: new ones come all the time */
        desk_frames(&message, draw(5) + i / 40 * 5, bytes, sizes, anything(bytes, sizes, from_worker));
        if (from_worker)
            worker_message(&desk->broker, &message);
        else
            client_message(&desk->broker, &message);
        message_fini(&message);
        if (draw(4) == 0)
            desk_wait(desk, draw(20000));
    }
    cr_assert_gt(desk->broker.stats.messages_bad, 1000);
    cr_assert_gt(desk->broker.stats.jobs_admitted, 100);
    still_serves(desk);
    desk_free(desk);
}

static void spray(struct peer *peer, unsigned count, bool from_worker)
{
    static uint8_t bytes[4 * (WIRE_META_BYTES + FRAME_ENVELOPE_BYTES)];
    size_t sizes[4];
    for (unsigned i = 0; i < count; i++) {
        struct heard heard = {.count = 0};
        size_t frames = anything(bytes, sizes, from_worker), at = 0;
        for (size_t k = 0; k < frames; at += sizes[k], k++)
            peer_send_raw(peer, bytes + at, sizes[k], k + 1 < frames);
        while (i % 64 == 0 && peer_hear(peer, &heard, 0))
            ;
        heard_fini(&heard);
    }
}

static void path_works(const struct pool *pool, uint64_t uuid)
{
    struct peer client, w;
    struct heard heard = {.count = 0};
    struct wire_worker honest = worker(uuid);
    struct wire_model own = echo;
    own.name = "own";
    honest.models = &own;
    peer_worker(&w, pool->workers_endpoint, &honest);
    peer_client(&client, pool->clients, uuid);
    peer_submit(&client, &(struct wire_job){.id = {uuid, 1}, .model = "own", .no_cache = true});
    cr_assert(peer_expect(&w, &heard, FRAME_SUBMIT, 10000));
    peer_answer(&w, &heard, 10);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 10000));
    cr_assert_eq(heard.env.status, PEN_OK);
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&w);
}

Test(hostile, noise_and_mutations_over_sockets, .timeout = 300)
{
    struct pool pool;
    struct peer client, w;
    pool_start(&pool, NULL);
    seed();
    for (unsigned i = 0; i < rounds(20); i++) {
        peer_open(&client, pool.clients);
        peer_open(&w, pool.workers_endpoint);
        spray(&client, 1000, false);
        spray(&w, 1000, true);
        spray(&client, 100, true); /* at the wrong door */
        spray(&w, 100, false);
        if (i % 5 == 4)
            path_works(&pool, 0xF00D + i);
        peer_close(&client);
        peer_close(&w);
    }
    cr_assert(process_alive(pool.broker));
    path_works(&pool, 0xF00E);
    pool_stop(&pool);
}

Test(hostile, oversize_frame_costs_its_sender_the_connection_and_nobody_else, .timeout = 60)
{
    struct pool pool;
    struct peer client;
    pool_start(&pool, (const char *const[]){"--max-frame-bytes", "1MiB", NULL});
    peer_client(&client, pool.clients, 0xC);
    size_t size = 64u << 20;
    void *bytes = calloc(1, size);
    peer_send_raw(&client, bytes, size, false);
    free(bytes);
    path_works(&pool, 0xF00D);
    cr_assert_lt(process_rss_bytes(pool.broker), (uint64_t)(getenv("PENSTOCK_SLOW") ? 500 : 60) << 20);
    peer_close(&client);
    pool_stop(&pool);
}

Test(hostile, message_of_very_many_frames_is_dropped, .timeout = 60)
{
    struct pool pool;
    struct peer client;
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct heard heard = {.count = 0};
    struct wire_job job = {.id = {0xC, 1}, .model = "echo", .raw = true};
    pool_start(&pool, NULL);
    peer_client(&client, pool.clients, 0xC);
    peer_send(&client, wire_job_envelope(&job), meta, wire_job(meta, &job, &raw));
    for (int i = 0; i < 20000; i++)
        peer_send_raw(&client, "x", 1, i + 1 < 20000);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 10000));
    cr_assert_eq(heard.env.status, PEN_ERR_CORRUPT);
    heard_fini(&heard);
    peer_close(&client);
    path_works(&pool, 0xF00D);
    pool_stop(&pool);
}

Test(hostile, newer_major_version_is_told_so_once, .timeout = 60)
{
    struct pool pool;
    struct peer peer;
    struct heard heard = {.count = 0};
    uint8_t meta[WIRE_META_BYTES];
    pool_start(&pool, NULL);
    for (int side = 0; side < 2; side++) {
        struct wire_worker w = worker(5);
        struct envelope env = envelope_make(side ? FRAME_WORKER_HELLO : FRAME_CLIENT_HELLO);
        size_t bytes = side ? wire_worker_hello(meta, &w) : wire_client_hello(meta, 5, "", 0);
        env.major = 2;
        peer_open(&peer, side ? pool.workers_endpoint : pool.clients);
        peer_send(&peer, env, meta, bytes);
        cr_assert(peer_expect(&peer, &heard, FRAME_WELCOME, 5000));
        cr_assert_eq(heard.env.status, PEN_ERR_VERSION);
        Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, heard.env.meta_bytes, heard.meta);
        cr_assert_not_null(strstr(welcome->error, "protocol 2."), "%s", welcome->error);
        penstock__welcome__free_unpacked(welcome, NULL);
        peer_send(&peer, env, meta, bytes);
        env.major = 1;
        peer_send(&peer, env, meta, bytes);
        cr_assert_not(peer_hear(&peer, &heard, 200), "ignored from then on");
        heard_fini(&heard);
        peer_close(&peer);
    }
    pool_stop(&pool);
}
