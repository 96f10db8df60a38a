/* The worker's own page beside connections that say nothing, little or too much. The real program, real sockets. */
#include "play_broker.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CROWD 300

static struct play play;
static struct play_message message;
static unsigned port;

static void open_play(void)
{
    const char *const arguments[] = {"--models",  PLAY_DIGITS, "--model",     "digits", "--backend",
                                     "reference", "--metrics", "127.0.0.1:0", NULL};
    play_open(&play);
    play_start(&play, arguments);
    play_serve(&play, &message);
    cr_assert(play_logged(&play, "evt=metrics address="), "%s", play_log(&play));
    const char *at = strstr(play_log(&play), "evt=metrics address=");
    cr_assert_eq(sscanf(strchr(at + 20, ':'), ":%u", &port), 1);
}

static void close_play(void)
{
    play_message_fini(&message);
    play_close(&play);
}

TestSuite(http, .init = open_play, .fini = close_play, .timeout = 60);

static int say(const char *text)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* The status; 0: closed without one, or none within two seconds. */
static int ask(const char *text)
{
    char answer[256] = "";
    int fd = say(text), status = 0;
    struct pollfd item = {.fd = fd, .events = POLLIN};
    if (poll(&item, 1, 2000) > 0 && recv(fd, answer, sizeof answer - 1, 0) > 0 &&
        sscanf(answer, "HTTP/1.1 %d", &status) != 1)
        status = 0;
    close(fd);
    return status;
}

Test(http, slow_and_dripping_connections_do_not_take_health_away)
{
    static int crowd[CROWD];
    unsigned answered = 0;
    for (int i = 0; i < CROWD; i++)
        crowd[i] = say(i % 3 ? "GET /v2/health/live HTTP/1.1\r\nX: " : "");
    for (int i = 0; i < 32; i++) {
        for (int k = 0; k < CROWD; k++)
            send(crowd[k], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        answered += ask("GET /v2/health/live HTTP/1.1\r\nHost: w\r\n\r\n") == 200;
    }
    cr_expect_eq(answered, 32, "%u of 32 probes were answered", answered);
    cr_expect_eq(ask("GET /metrics HTTP/1.0\r\n\r\n"), 200);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
}

Test(http, hosts_that_a_proxy_may_read_otherwise_are_refused)
{
    cr_expect_eq(ask("GET /v2/health/live HTTP/1.1\r\n\r\n"), 400);
    cr_expect_eq(ask("GET /v2/health/live HTTP/1.0\r\n\r\n"), 200);
    cr_expect_eq(ask("GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n"), 200);
    cr_expect_eq(ask("GET /v2/health/live HTTP/1.1\r\nHost: a\r\nHOST : b\r\n\r\n"), 400);
    cr_expect_eq(ask("GET /v2/health/live HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
}
