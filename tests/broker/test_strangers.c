/*
 * Peers that are not what they seem: connections whose other end is gone without a word, and identities that are another's. The real program over
 * real sockets.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

#define HALF_OPEN     40
#define ZMTP_GREETING 64

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 9};
static const struct wire_worker one = {.uuid = 5, .name = "one", .slots = 4, .models = &echo, .models_count = 1};

#define QUICK_LIVENESS                                                                                                 \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        "--heartbeat", "1s", "--liveness", "3s", NULL                                                                  \
    }

static size_t open_files(const struct process *process)
{
    char path[64];
    size_t count = 0;
    for (int fd = 0; fd < 1000; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process_pid(process), fd);
        count += access(path, F_OK) == 0;
    }
    return count;
}

/* The bytes of ZMTP 3.1 by which a DEALER without a name begins (rfc.zeromq.org/spec/37). */
static size_t zmtp_begin(uint8_t bytes[128])
{
    static const char ready[] = "\x04\x1C\x05READY\x0BSocket-Type\0\0\0\x06"
                                "DEALER";
    memset(bytes, 0, ZMTP_GREETING);
    bytes[0] = 0xFF;
    bytes[9] = 0x7F;
    bytes[10] = 3;
    bytes[11] = 1;
    memcpy(bytes + 12, "NULL", 4);
    memcpy(bytes + ZMTP_GREETING, ready, sizeof ready - 1);
    return ZMTP_GREETING + sizeof ready - 1;
}

/* A connection that says hello, and then is a socket at which nobody sits: nothing is read, nothing answered, nothing closed. */
static int half_open(const char *endpoint, uint64_t uuid)
{
    uint8_t bytes[512], answer[ZMTP_GREETING], meta[WIRE_META_BYTES];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct envelope hello = envelope_make(FRAME_CLIENT_HELLO);
    size_t used = zmtp_begin(bytes), meta_bytes = wire_client_hello(meta, uuid, "", 0);
    address.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    hello.meta_bytes = (uint32_t)meta_bytes;
    bytes[used++] = 0; /* a last frame, its length in one byte */
    bytes[used++] = (uint8_t)(FRAME_ENVELOPE_BYTES + meta_bytes);
    envelope_encode(&hello, bytes + used);
    memcpy(bytes + used + FRAME_ENVELOPE_BYTES, meta, meta_bytes);
    used += FRAME_ENVELOPE_BYTES + meta_bytes;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    cr_assert_eq(write(fd, bytes, ZMTP_GREETING), ZMTP_GREETING);
    cr_assert_eq(recv(fd, answer, ZMTP_GREETING, MSG_WAITALL), ZMTP_GREETING); /* it was accepted */
    cr_assert_eq(write(fd, bytes + ZMTP_GREETING, used - ZMTP_GREETING), (ssize_t)(used - ZMTP_GREETING));
    return fd;
}

static bool files_fall_to(const struct pool *pool, size_t count)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(20000) * 1000u;
    while (open_files(pool->broker) > count && support_now_us() < end_us)
        support_sleep_ms(50);
    return open_files(pool->broker) <= count;
}

static void job_is_answered(struct peer *client, struct peer *worker, struct job_id id)
{
    struct heard heard = {.count = 0};
    peer_submit(client, &(struct wire_job){.id = id, .model = "echo", .no_cache = true});
    cr_assert(peer_expect(worker, &heard, FRAME_SUBMIT, 20000));
    peer_answer(worker, &heard, 10);
    cr_assert(peer_expect(client, &heard, FRAME_RESULT, 20000));
    cr_assert_eq(heard.env.status, PEN_OK);
    cr_assert_eq(heard.env.job.sequence, id.sequence);
    heard_fini(&heard);
}

Test(strangers, half_open_connections_are_let_go_with_all_they_hold, .timeout = 120)
{
    struct pool pool;
    struct peer client, worker;
    int fds[HALF_OPEN];
    pool_start(&pool, QUICK_LIVENESS);
    size_t before = open_files(pool.broker);
    for (uint64_t i = 0; i < HALF_OPEN; i++)
        fds[i] = half_open(pool.clients, 0x100 + i);
    cr_assert(files_fall_to(&pool, before + 1), "%zu descriptors, %zu before", open_files(pool.broker), before);
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    job_is_answered(&client, &worker, (struct job_id){0xC, 1});
    peer_close(&client);
    peer_close(&worker);
    for (size_t i = 0; i < HALF_OPEN; i++)
        close(fds[i]);
    pool_stop(&pool);
}

/* An identity of their own, or the same one: such peers hear nothing and hinder nobody. */
Test(strangers, peers_that_set_an_identity_are_not_heard, .timeout = 60)
{
    static const char *const names[] = {"same", "same", "another"};
    enum { NAMED = sizeof names / sizeof names[0] };
    struct pool pool;
    struct peer worker, client, named[NAMED];
    struct heard heard = {.count = 0};
    uint8_t meta[WIRE_META_BYTES];
    int none = 0;
    pool_start(&pool, NULL);
    for (size_t i = 0; i < NAMED; i++) {
        named[i].context = zmq_ctx_new();
        named[i].socket = zmq_socket(named[i].context, ZMQ_DEALER);
        zmq_setsockopt(named[i].socket, ZMQ_LINGER, &none, sizeof none);
        zmq_setsockopt(named[i].socket, ZMQ_ROUTING_ID, names[i], strlen(names[i]));
        cr_assert_eq(zmq_connect(named[i].socket, pool.clients), 0);
        peer_send(&named[i], envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0xC, "", 0));
        peer_submit(&named[i], &(struct wire_job){.id = {0xC, 1}, .model = "echo", .no_cache = true});
    }
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    for (uint64_t i = 1; i <= 20; i++)
        job_is_answered(&client, &worker, (struct job_id){0xC, i});
    cr_assert(process_wait_text(pool.broker, "identity", 5000), "the log says whom it does not hear");
    for (size_t i = 0; i < NAMED; i++) {
        cr_assert_not(peer_hear(&named[i], &heard, 0));
        peer_close(&named[i]);
    }
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&worker);
    pool_stop(&pool);
}

/*
 * libzmq ends a program whose ROUTER is about to give an id that a peer has set as its own; unseeded, the first one would be known to everybody. Who
 * tries those that come next must hit nothing.
 */
Test(strangers, ids_that_come_next_cannot_be_foretold, .timeout = 60)
{
    enum { FORGED = 16, FIRST = 0x6B8B4567 }; /* rand() of a fresh process */
    struct pool pool;
    struct peer worker, client, forged[FORGED];
    int none = 0;
    pool_start(&pool, NULL);
    for (uint32_t i = 0; i < FORGED; i++) {
        uint32_t id = FIRST + i;
        const uint8_t name[] = {0, (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
        forged[i].context = zmq_ctx_new();
        forged[i].socket = zmq_socket(forged[i].context, ZMQ_DEALER);
        zmq_setsockopt(forged[i].socket, ZMQ_LINGER, &none, sizeof none);
        zmq_setsockopt(forged[i].socket, ZMQ_ROUTING_ID, name, sizeof name);
        cr_assert_eq(zmq_connect(forged[i].socket, pool.clients), 0);
        struct heard heard = {.count = 0};
        uint8_t meta[WIRE_META_BYTES];
        peer_send(&forged[i], envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0x100 + i, "", 0));
        cr_assert(peer_expect(&forged[i], &heard, FRAME_WELCOME, 5000)); /* it is in */
        heard_fini(&heard);
    }
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    job_is_answered(&client, &worker, (struct job_id){0xC, 1});
    cr_assert(process_alive(pool.broker));
    for (size_t i = 0; i < FORGED; i++)
        peer_close(&forged[i]);
    peer_close(&client);
    peer_close(&worker);
    pool_stop(&pool);
}

/* Without keys a session's uuid is all there is: who says hello with it is that client, come back on a new connection. */
Test(strangers, hello_under_a_live_uuid_takes_the_session_over_and_each_job_is_answered_once, .timeout = 60)
{
    struct pool pool;
    struct peer worker, first, second;
    struct heard work = {.count = 0}, heard = {.count = 0};
    pool_start(&pool, NULL);
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&first, pool.clients, 0xC);
    peer_submit(&first, &(struct wire_job){.id = {0xC, 1}, .model = "echo", .no_cache = true});
    cr_assert(peer_expect(&worker, &work, FRAME_SUBMIT, 5000));
    peer_client(&second, pool.clients, 0xC);
    peer_answer(&worker, &work, 10);
    cr_assert(peer_expect(&second, &heard, FRAME_RESULT, 5000));
    cr_assert_eq(heard.env.job.sequence, 1);
    job_is_answered(&second, &worker, (struct job_id){0xC, 2});
    cr_assert_not(peer_expect(&first, &heard, FRAME_RESULT, 100), "answered once");
    heard_fini(&work);
    heard_fini(&heard);
    peer_close(&first);
    peer_close(&second);
    peer_close(&worker);
    pool_stop(&pool);
}
