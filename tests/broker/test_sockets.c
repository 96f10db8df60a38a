/* The real program over real sockets: the path of a job, and what happens when a peer vanishes. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dealer.h"
#include "http_get.h"
#include "peer.h"
#include "port.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

static struct wire_worker worker(uint64_t uuid, const char *name)
{
    return (struct wire_worker){.uuid = uuid, .name = name, .slots = 1, .models = &echo, .models_count = 1};
}

Test(sockets, what_a_neighbour_cannot_hear_now_is_not_sent)
{
    struct dealer dealer;
    struct pen_error error;
    void *context = zmq_ctx_new();
    cr_assert_eq(dealer_open(&dealer, context, "tcp://127.0.0.1:1", NULL, 1 << 20, &error), PEN_OK, "%s", error.text);
    cr_expect(!dealer_say(&dealer, envelope_make(FRAME_PING), NULL, 0), "nobody is there");
    dealer_close(&dealer);
    zmq_ctx_term(context);
}

Test(sockets, result_comes_back, .timeout = 60)
{
    struct pool pool;
    struct peer client, w;
    struct heard heard = {.count = 0};
    struct wire_worker one = worker(5, "one");
    pool_start(&pool, NULL);
    peer_worker(&w, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    peer_submit(&client, &(struct wire_job){.id = {0xC, 1}, .model = "echo", .raw = true, .dims = {1, 4}});
    cr_assert(peer_expect(&w, &heard, FRAME_SUBMIT, 5000));
    cr_assert_eq(heard.count, 2, "the raw frame came along");
    cr_assert_eq(peer_answer(&w, &heard, 50), 1);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 5000));
    cr_assert_eq(heard.env.status, PEN_OK);
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&w);
    pool_stop(&pool);
}

/* Waits of the broker's loop that it spent awake while a client pings, until there are more than `enough`. */
static long busy_waits(const char *spin, long enough)
{
    struct pool pool;
    struct peer client;
    struct heard heard = {.count = 0};
    char address[32];
    long count = 0;
    snprintf(address, sizeof address, "127.0.0.1:%d", port_free());
    pool_start(&pool, (const char *const[]){"--spin", spin, "--http", address, NULL});
    peer_client(&client, pool.clients, 0xC);
    for (int i = 0; i < 200 && count <= enough; i++) {
        char *page = NULL;
        peer_send(&client, envelope_make(FRAME_PING), NULL, 0);
        cr_assert(peer_expect(&client, &heard, FRAME_PONG, 5000));
        support_sleep_ms(10);
        cr_assert_eq(http_get(address, "/metrics", &page), 200);
        const char *line = strstr(page, "\npenstock_busy_waits_total ");
        cr_assert_not_null(line, "%s", page);
        count = strtol(line + strlen("\npenstock_busy_waits_total "), NULL, 10);
        free(page);
    }
    heard_fini(&heard);
    peer_close(&client);
    pool_stop(&pool);
    return count;
}

/* There are two kinds of waits: one of each would be no habit. */
Test(sockets, spin_is_waiting_awake_after_each_message, .timeout = 60)
{
    cpu_set_t cpus;
    cr_expect_eq(busy_waits("0", 0), 0);
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2)
        cr_skip_test("there is no spinning with one processor");
    cr_expect_gt(busy_waits("1ms", 4), 4);
}

/* How long two jobs' way from a worker that vanishes to another took. */
static uint64_t requeue_us(void)
{
    struct pool pool;
    struct peer client, first, second;
    struct heard heard = {.count = 0};
    struct wire_worker one = worker(5, "one"), two = worker(6, "two");
    pool_start(&pool, NULL);
    peer_worker(&first, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    for (uint64_t i = 1; i <= 2; i++)
        peer_submit(&client, &(struct wire_job){.id = {0xC, i}, .model = "echo", .no_cache = true});
    cr_assert(peer_expect(&first, &heard, FRAME_SUBMIT, 5000));
    cr_assert(peer_expect(&first, &heard, FRAME_SUBMIT, 5000));
    peer_worker(&second, pool.workers_endpoint, &two);
    uint64_t start_us = support_now_us();
    peer_vanish(&first);
    cr_assert(peer_expect(&second, &heard, FRAME_SUBMIT, 5000));
    uint64_t took_us = support_now_us() - start_us;
    printf("requeue_us=%llu\n", (unsigned long long)took_us);
    peer_answer(&second, &heard, 50);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 5000));
    cr_assert_eq(heard.env.status, PEN_OK);
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&second);
    pool_stop(&pool);
    return took_us;
}

/* The bound is 50 ms; the median is below 5. A busy machine may hold somebody up: of some tries one must keep it. */
Test(sockets, jobs_of_a_vanished_worker_run_elsewhere_within_50_ms, .timeout = 60)
{
    const uint64_t limit_us = (uint64_t)support_slow(50) * 1000;
    uint64_t took_us = UINT64_MAX;
    for (int i = 0; i < 6 && took_us >= limit_us; i++)
        took_us = requeue_us();
    cr_assert_lt(took_us, limit_us);
}

/* The second I/O thread gives way to all others: who has no bulk address of its own must not get there by chance. */
Test(sockets, ordinary_connections_are_on_the_first_thread_whoever_has_an_address_for_bulk, .timeout = 60)
{
    struct port_options options = {.endpoint = "tcp://127.0.0.1:*",
                                   .fd = -1,
                                   .monitor_name = "inproc://monitor-plain",
                                   .frame_bytes_max = 1 << 20,
                                   .heartbeat_us = 1000000,
                                   .liveness_us = 2000000};
    struct pen_error error = {.status = PEN_OK};
    struct port plain, apart;
    uint64_t threads = 0;
    size_t bytes = sizeof threads;
    void *context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_IO_THREADS, 2);
    cr_assert_eq(port_open(&plain, context, &options, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(zmq_getsockopt(plain.socket, ZMQ_AFFINITY, &threads, &bytes), 0);
    cr_expect_eq(threads, 1u);
    cr_expect_eq(plain.bulk_number, 0u);
    options.bulk_endpoint = "tcp://127.0.0.1:*";
    options.monitor_name = "inproc://monitor-apart";
    cr_assert_eq(port_open(&apart, context, &options, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(zmq_getsockopt(apart.socket, ZMQ_AFFINITY, &threads, &bytes), 0);
    cr_expect_eq(threads, 1u);
    cr_expect_neq(apart.bulk_number, 0u);
    port_close(&plain, 0);
    port_close(&apart, 0);
    zmq_ctx_term(context);
}
