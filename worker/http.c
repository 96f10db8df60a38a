/* http.c - accept, read a line, answer, close. */
#include "http.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "signals.h"

#define REQUEST_BYTES 4096u
#define REQUEST_US    2000000u
#define PAGE_BYTES    (256u * 1024u) /* 256 models with the longest names */
#define BACKLOG       16

#define ACCEPT_PAUSE_MS 200 /* after an accept that failed */

struct worker_http {
    int fd, end_fd;
    struct vitals *vitals;
    pthread_t thread;
    char address[80];
    char page[PAGE_BYTES];
};

/* ---- one connection ---- */

/* The whole head of a request, or what came in time. */
static size_t read_head(int fd, char *head, size_t room)
{
    uint64_t until_us = clock_now_us() + REQUEST_US, now_us;
    size_t used = 0;
    while (used + 1 < room && (now_us = clock_now_us()) < until_us) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (poll(&item, 1, (int)((until_us - now_us) / 1000 + 1)) <= 0)
            break;
        ssize_t got = recv(fd, head + used, room - 1 - used, MSG_DONTWAIT);
        if (got <= 0)
            break;
        used += (size_t)got;
        head[used] = '\0';
        if (strstr(head, "\r\n\r\n") || strstr(head, "\n\n"))
            break;
    }
    head[used] = '\0';
    return used;
}

static void send_all(int fd, const char *bytes, size_t count)
{
    uint64_t until_us = clock_now_us() + REQUEST_US;
    while (count > 0 && clock_now_us() < until_us) {
        struct pollfd item = {.fd = fd, .events = POLLOUT};
        if (poll(&item, 1, 100) <= 0)
            continue;
        ssize_t sent = send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
}

static void answer(int fd, int status, const char *type, const char *body, size_t bytes)
{
    char head[256];
    const char *reason = status == 200   ? "OK"
                         : status == 404 ? "Not Found"
                         : status == 405 ? "Method Not Allowed"
                                         : "Service Unavailable";
    int count = snprintf(head, sizeof head,
                         "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                         "Connection: close\r\n\r\n",
                         status, reason, type, bytes);
    send_all(fd, head, (size_t)count);
    send_all(fd, body, bytes);
}

static void answer_health(int fd, const char *name, bool good)
{
    char body[64];
    int bytes = snprintf(body, sizeof body, "{\"%s\":%s}\n", name, good ? "true" : "false");
    answer(fd, good ? 200 : 503, "application/json", body, (size_t)bytes);
}

static void answer_text(int fd, int status, const char *text)
{
    answer(fd, status, "text/plain; charset=utf-8", text, strlen(text));
}

void worker_http_serve(int fd, struct vitals *vitals, char *page, size_t room)
{
    char head[REQUEST_BYTES], method[8] = "", path[128] = "";
    uint64_t now_us = clock_now_us();
    if (read_head(fd, head, sizeof head) == 0 || sscanf(head, "%7s %127s", method, path) != 2)
        return;
    if (strcmp(method, "GET") != 0)
        answer_text(fd, 405, "only GET is answered here\n");
    else if (strcmp(path, "/v2/health/live") == 0)
        answer_health(fd, "live", vitals_live(vitals, now_us));
    else if (strcmp(path, "/v2/health/ready") == 0)
        answer_health(fd, "ready", vitals_live(vitals, now_us) && vitals_ready(vitals));
    else if (strcmp(path, "/metrics") == 0)
        answer(fd, 200, "text/plain; version=0.0.4; charset=utf-8", page, vitals_text(vitals, now_us, page, room));
    else
        answer_text(fd, 404, "there are /metrics /v2/health/live /v2/health/ready\n");
}

static void *http_main(void *context)
{
    struct worker_http *http = context;
    pthread_setname_np(pthread_self(), "http");
    for (;;) {
        struct pollfd items[2] = {{.fd = http->fd, .events = POLLIN}, {.fd = http->end_fd, .events = POLLIN}};
        if (poll(items, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (items[1].revents)
            return NULL;
        int fd = items[0].revents ? accept4(http->fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0) {
            if (items[0].revents && errno != EAGAIN &&
                errno != EINTR) /* no descriptors: who asks waits, and we do not spin */
                poll(&items[1], 1, ACCEPT_PAUSE_MS);
            continue;
        }
        worker_http_serve(fd, http->vitals, http->page, sizeof http->page);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
}

/* ---- life ---- */

static enum pen_status listen_on(const char *address, int *ret_fd, struct pen_error *reterr)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    size_t bytes = colon ? (size_t)(colon - address) : 0;
    const char *port = colon ? colon + 1 : "";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    bool six = bytes > 2 && address[0] == '[' && address[bytes - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(six ? bytes - 2 : bytes < sizeof host ? bytes : 0), address + six);
    if (!*host || getaddrinfo(host, strcmp(port, "*") == 0 ? "0" : port, &hints, &found) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "--metrics %s: it must be ADDRESS:PORT, such as 127.0.0.1:9100",
                             address);
    int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    int error = errno;
    freeaddrinfo(found);
    if (good) {
        *ret_fd = fd;
        return PEN_OK;
    }
    if (fd >= 0)
        close(fd);
    return pen_error_set(reterr, PEN_ERR_IO, "--metrics %s cannot be listened on: %s", address, strerror(error));
}

static void note_address(struct worker_http *http)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof own;
    char host[64] = "", port[8] = "";
    if (getsockname(http->fd, (struct sockaddr *)&own, &bytes) == 0)
        getnameinfo((struct sockaddr *)&own, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(http->address, sizeof http->address, own.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

enum pen_status worker_http_start(const char *address, struct vitals *vitals, struct worker_http **ret_http,
                                  struct pen_error *reterr)
{
    int fd = -1;
    sigset_t before;
    enum pen_status status = listen_on(address, &fd, reterr);
    if (status != PEN_OK)
        return status;
    struct worker_http *http = calloc(1, sizeof *http);
    int end_fd = eventfd(0, EFD_CLOEXEC);
    if (http && end_fd >= 0) {
        *http = (struct worker_http){.fd = fd, .end_fd = end_fd, .vitals = vitals};
        note_address(http);
        signals_block(&before); /* they go to the network thread */
        int error = pthread_create(&http->thread, NULL, http_main, http);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error == 0) {
            *ret_http = http;
            return PEN_OK;
        }
    }
    free(http);
    close(fd);
    if (end_fd >= 0)
        close(end_fd);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "--metrics %s: no memory or no thread for it", address);
}

const char *worker_http_address(const struct worker_http *http)
{
    return http->address;
}

void worker_http_stop(struct worker_http *http)
{
    uint64_t one = 1;
    if (!http)
        return;
    if (write(http->end_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(http->thread, NULL);
    close(http->fd);
    close(http->end_fd);
    free(http);
}
