/* Clients that say a byte at a time, so many that nobody else would get a connection. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_get.h"
#include "pool.h"
#include "process.h"

/* None of them is ever silent, and none ends its request. */
Test(http_slow, slow_clients_do_not_keep_the_connections, .timeout = 120)
{
    struct pool pool;
    char address[64];
    int fds[64], status = 0;
    pool_start(&pool, (const char *const[]){"--http", "127.0.0.1:*", NULL});
    cr_assert(process_log_value(pool.broker, "evt=listening", "http", address, sizeof address));
    for (size_t i = 0; i < 64; i++) {
        fds[i] = http_connect(address);
        http_say(fds[i], "GET /metrics HTTP/1.1\r\nX: ");
    }
    uint64_t start_us = support_now_us(), end_us = start_us + (uint64_t)support_slow(30000) * 1000;
    while (status != 200 && support_now_us() < end_us) {
        for (size_t i = 0; i < 64; i++)
            send(fds[i], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* those that were closed do not matter */
        support_sleep_ms(500);
        if (support_now_us() - start_us > 9000000)
            status = http_get(address, "/v2/health/live", NULL);
    }
    cr_assert_eq(status, 200);
    for (size_t i = 0; i < 64; i++)
        close(fds[i]);
    pool_stop(&pool);
}

#define CROWD_MAX 700u

static struct pool pool;
static char address[64];
static int crowd[CROWD_MAX];
static size_t crowd_count;

static void open_pool(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    crowd_count = 0;
    pool_start(&pool, (const char *const[]){"--http", "127.0.0.1:*", NULL});
    cr_assert(process_log_value(pool.broker, "evt=listening", "http", address, sizeof address));
}

static void close_pool(void)
{
    for (size_t i = 0; i < crowd_count; i++)
        close(crowd[i]);
    pool_stop(&pool);
}

TestSuite(http_crowd, .init = open_pool, .fini = close_pool, .timeout = 120);

/* From 127.0.0.`host`. */
static int connect_from(unsigned host)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((unsigned short)atoi(strrchr(address, ':') + 1));
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void come(size_t count, unsigned host, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        crowd[crowd_count] = connect_from(host);
        http_say(crowd[crowd_count++], text);
    }
}

static void drip(void)
{
    for (size_t i = 0; i < crowd_count; i++)
        send(crowd[i], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* GET path from 127.0.0.`host`; 0: closed, or no answer within the time. */
static int ask_from(unsigned host, const char *path, int timeout_ms)
{
    char request[128];
    int fd = connect_from(host), status = 0;
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    http_say(fd, request);
    char *answer = http_hear(fd, NULL, timeout_ms);
    if (sscanf(answer, "HTTP/1.1 %d", &status) != 1)
        status = 0;
    free(answer);
    close(fd);
    return status;
}

/* The probe comes from where the others come, as behind a proxy, and the others go on meanwhile. */
static void all_probes_are_answered(void)
{
    unsigned answered = 0;
    for (int i = 0; i < 32; i++) {
        drip();
        answered += ask_from(1, i % 2 ? "/v2/health/ready" : "/v2/health/live", 1000) == (i % 2 ? 503 : 200);
    }
    cr_assert_eq(answered, 32, "%u of 32 probes were answered", answered);
}

Test(http_crowd, slow_and_dripping_connections_do_not_take_health_away)
{
    come(200, 1, "GET /metrics HTTP/1.1\r\nX: ");
    come(100, 2, "");
    come(100, 3, "GET /v2/health/live HTTP/1.1\r\nHost: ");
    all_probes_are_answered();
    cr_assert_eq(ask_from(1, "/metrics", 5000), 200, "nor a scrape: they have no thread");
}

Test(http_crowd, more_of_them_than_may_wait_do_not_take_health_away)
{
    come(600, 1, "GET /metrics HTTP/1.1\r\nX: ");
    come(100, 2, "G");
    all_probes_are_answered();
}

/* Each has had an answer and begins another request, or reads for ever. */
Test(http_crowd, connections_that_stay_leave_room_for_others)
{
    come(40, 2, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    come(80, 2, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /X");
    come(80, 3, "GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\nGET /X");
    all_probes_are_answered();
    for (int i = 0; i < 8; i++)
        cr_assert_eq(ask_from(1, "/metrics", 5000), 200, "scrape %d", i);
}

Test(http_crowd, head_that_never_ends_is_told_so)
{
    int fd = connect_from(1);
    char *big = malloc(20001);
    memset(big, 'a', 20000);
    memcpy(big, "GET / HTTP/1.1\r\nX: ", 19);
    big[20000] = '\0';
    http_say(fd, big);
    char *answer = http_hear(fd, NULL, 5000);
    cr_assert_not_null(strstr(answer, " 431 "), "%s", answer);
    free(answer);
    free(big);
    close(fd);
}

/* As many of one address as may be, each between two requests: the one that has waited longest goes for the next one that comes. */
Test(http_crowd, a_connection_that_waits_for_nothing_gives_its_place_away)
{
    come(48, 1, "GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n");
    support_sleep_ms(support_slow(300));
    uint64_t begun_us = support_now_us();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(ask_from(1, "/metrics", 5000), 200, "scrape %d", i);
    cr_expect_lt(support_now_us() - begun_us, (uint64_t)support_slow(4000) * 1000, "long before idle ones are closed");
}
