/* Clients that say a byte at a time, so many that nobody else would get a connection. */
#include <criterion/criterion.h>
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
