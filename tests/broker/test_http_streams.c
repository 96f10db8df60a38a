/* A stream of events may be read for any length of time; other connections may not stand still so long. The clock of the pages is put forward. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "desk.h"
#include "http.h"
#include "http_get.h"
#include "metrics_post.h"
#include "process.h"

static atomic_ullong ahead_us;

uint64_t __real_clock_now_us(void);
uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_now_us(void)
{
    return __real_clock_now_us() + atomic_load(&ahead_us);
}

static struct desk *desk;
static struct post *post;
static atomic_bool over;

/* As the broker's loop does it. */
static void *serve(void *unused)
{
    while (!atomic_load(&over)) {
        post_beat(post, clock_now_us());
        post_serve(post, &desk->broker);
        support_sleep_ms(2);
    }
    return unused;
}

/* Whether the other side ends the connection within that time; what it says is thrown away. */
static bool ends(int fd, unsigned ms)
{
    char bytes[4096];
    struct pollfd item = {.fd = fd, .events = POLLIN};
    uint64_t until_us = __real_clock_now_us() + ms * 1000u;
    while (__real_clock_now_us() < until_us) {
        if (poll(&item, 1, 20) > 0 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == 0)
            return true;
    }
    return false;
}

Test(http_streams, a_stream_lives_on_and_a_connection_that_asks_nothing_ends, .timeout = 60)
{
    pthread_t thread;
    struct http *http = NULL;
    struct pen_error error;
    desk = desk_new();
    desk_open(desk);
    post = post_new(clock_now_us);
    cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    cr_assert_eq(http_start("127.0.0.1:*", -1, true, post, NULL, &http, &error), PEN_OK, "%s", error.text);
    int stream = http_connect(http_address(http)), silent = http_connect(http_address(http));
    http_say(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    http_say(silent, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char *heard = http_hear(stream, "data:", 10000);
    cr_assert(heard && strstr(heard, "data:"), "%s", heard ? heard : "nothing");
    free(heard);
    free(http_hear(silent, "penstock_", 10000));
    atomic_store(&ahead_us, 100u * 1000000u);
    cr_expect(ends(silent, (unsigned)support_slow(5000)), "it has asked nothing for 100 s");
    cr_expect(!ends(stream, 1000), "its reader has read all the time");
    close(stream);
    close(silent);
    http_stop(http);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    post_free(post);
    desk_free(desk);
}
