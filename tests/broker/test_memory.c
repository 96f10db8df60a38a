/* What a waiting job costs, and that memory goes back to the system afterwards. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "peer.h"

#define JOBS 100000u

static const struct wire_model model = {.name = "m",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 50000,
                                        .digest = 9,
                                        .dim = 1024};

static uint64_t queued(struct peer *client)
{
    uint8_t meta[WIRE_META_BYTES];
    struct heard heard = {.count = 0};
    peer_send(client, envelope_make(FRAME_CONTROL), meta, wire_control(meta, "stats", "", 1));
    cr_assert(peer_expect(client, &heard, FRAME_CONTROL_REPLY, 20000));
    Penstock__ControlReply *reply = penstock__control_reply__unpack(NULL, heard.env.meta_bytes, heard.meta);
    uint64_t count = reply->stats->queued;
    penstock__control_reply__free_unpacked(reply, NULL);
    heard_fini(&heard);
    return count;
}

Test(memory, waiting_kibibyte_job_costs_at_most_1500_bytes_and_they_come_back, .timeout = 120)
{
    struct pool pool;
    struct peer client, worker;
    struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &model, .models_count = 1};
    if (getenv("PENSTOCK_SLOW"))
        cr_skip("sanitizers have their own memory");
    pool_start(&pool, (const char *const[]){"--queue-limit", "200000", "--liveness", "1h", NULL});
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    uint64_t idle = process_rss_bytes(pool.broker);
    for (uint64_t i = 1; i <= JOBS; i++)
        peer_submit(&client, &(struct wire_job){.id = {0xC, i}, .model = "m", .dims = {1, 1024}, .no_digest = true});
    cr_assert_eq(queued(&client), JOBS - 2);
    uint64_t full = process_rss_bytes(pool.broker);
    peer_send(&client, envelope_make(FRAME_GOODBYE), NULL, 0);
    uint64_t end_us = support_now_us() + 30000000, rss = full;
    while (support_now_us() < end_us && rss > idle * 3 / 2) {
        support_sleep_ms(100);
        peer_send(&worker, envelope_make(FRAME_HEARTBEAT), NULL, 0); /* an idle pool is not a silent one */
        rss = process_rss_bytes(pool.broker);
    }
    printf("idle=%llu bytes_per_job=%llu afterwards=%llu\n", (unsigned long long)idle,
           (unsigned long long)((full - idle) / JOBS), (unsigned long long)rss);
    cr_expect_leq((full - idle) / JOBS, 1500u);
    cr_expect_leq(rss, idle * 3 / 2);
    cr_expect_leq(idle, 12u << 20, "pages of shared libraries included, of which libmicrohttpd brings 2 MiB");
    peer_close(&client);
    peer_close(&worker);
    pool_stop(&pool);
}
