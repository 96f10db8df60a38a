/* Crowds at the door: thousands of connections that say nothing, hellos without end, a flood; who behaves is served all the while. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "desk.h"
#include "peer.h"

#define CROWD 3000 /* PENSTOCK_CROWD=10000 asks for more: with a free machine that takes some seconds */

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 9};

static void path_works(const struct pool *pool, uint64_t uuid)
{
    struct peer client, w;
    struct heard heard = {.count = 0};
    struct wire_worker honest = {.uuid = uuid, .name = "w", .slots = 2, .models = &echo, .models_count = 1};
    peer_worker(&w, pool->workers_endpoint, &honest);
    peer_client(&client, pool->clients, uuid);
    peer_submit(&client, &(struct wire_job){.id = {uuid, 1}, .model = "echo", .no_cache = true});
    cr_assert(peer_expect(&w, &heard, FRAME_SUBMIT, 20000));
    peer_answer(&w, &heard, 10);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 20000));
    cr_assert_eq(heard.env.status, PEN_OK);
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&w);
}

/* As many as this process may hold, up to CROWD. */
static size_t crowd_size(void)
{
    struct rlimit limit;
    const char *asked = getenv("PENSTOCK_CROWD");
    size_t crowd = asked ? (size_t)atoi(asked) : CROWD;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > crowd + 500 ? crowd : (size_t)limit.rlim_cur / 2;
}

static int connect_raw(const char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static size_t open_files(const struct process *process)
{
    char path[64];
    size_t count = 0;
    for (int fd = 0; fd < 40000; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process_pid(process), fd);
        count += access(path, F_OK) == 0;
    }
    return count;
}

Test(crowd, thousands_of_silent_connections_hold_up_nobody_and_leave_nothing, .timeout = 200)
{
    struct pool pool;
    size_t count = crowd_size(), open = 0;
    int *fds = calloc(count, sizeof *fds);
    pool_start(&pool, NULL);
    size_t before = open_files(pool.broker);
    for (size_t i = 0; i < count; i++) {
        fds[i] = connect_raw(pool.clients);
        open += fds[i] >= 0;
        if (fds[i] >= 0 && i % 2 && write(fds[i], "\xff\0\0\0", 4) < 0) /* half a greeting */
            cr_log_info("one was closed at once");
    }
    cr_assert_gt(open, count * 9 / 10);
    path_works(&pool, 0xF00D);
    for (size_t i = 0; i < count; i++)
        close(fds[i] >= 0 ? fds[i] : -1);
    path_works(&pool, 0xF00E);
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(20000) * 1000u;
    while (open_files(pool.broker) > before + 20 && support_now_us() < end_us)
        support_sleep_ms(100);
    cr_assert_leq(open_files(pool.broker), before + 20, "descriptors come back");
    cr_assert(process_alive(pool.broker));
    free(fds);
    pool_stop(&pool);
}

Test(crowd, hellos_without_end_on_one_connection_are_one_session, .timeout = 60)
{
    struct desk *desk = desk_new();
    uint8_t meta[WIRE_META_BYTES];
    desk_open(desk);
    desk->clients.forget = true;
    for (uint64_t i = 1; i <= 20000; i++)
        desk_say_client(desk, 1, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, i, "", 0), 0);
    cr_assert_eq(desk->broker.sessions.count, 1, "a hello under another uuid ends the former");
    desk_free(desk);
}

Test(crowd, hellos_from_ever_new_connections_are_bounded_and_forgotten, .timeout = 60)
{
    struct desk *desk = desk_new();
    uint8_t meta[WIRE_META_BYTES];
    desk_open(desk);
    desk->clients.forget = true;
    for (uint32_t i = 1; i <= 30000; i++)
        desk_say_client(desk, i, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, i, "", 0), 0);
    cr_assert_eq(desk->broker.sessions.count, 30000);
    cr_assert_leq(desk->broker.sessions.count, SESSIONS_MAX);
    desk_wait(desk, 10000000); /* nobody answers: liveness, then grace */
    cr_assert_eq(desk->broker.sessions.count, 0);
    desk_free(desk);
}

Test(crowd, flood_of_jobs_is_told_busy_and_others_are_served, .timeout = 120)
{
    struct pool pool;
    struct peer flood;
    struct heard heard = {.count = 0};
    size_t busy = 0;
    pool_start(&pool, (const char *const[]){"--queue-limit", "1000", NULL});
    struct wire_worker slow = {.uuid = 5, .name = "slow", .slots = 1, .models = &echo, .models_count = 1};
    struct peer holder;
    peer_worker(&holder, pool.workers_endpoint, &slow);
    peer_client(&flood, pool.clients, 0xF1);
    for (uint64_t i = 1; i <= 5000; i++)
        peer_submit(&flood, &(struct wire_job){.id = {0xF1, i}, .model = "echo", .no_cache = true, .no_digest = true});
    while (busy < 3000 && peer_expect(&flood, &heard, FRAME_RESULT, 5000))
        busy += heard.env.status == PEN_ERR_BUSY;
    cr_assert_geq(busy, 3000, "beyond the limit each is told");
    heard_fini(&heard);
    peer_close(&flood);
    peer_vanish(&holder);
    support_sleep_ms(1500); /* the flood's grace */
    path_works(&pool, 0xF00D);
    pool_stop(&pool);
}
