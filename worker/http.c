/* http.c - reads a request that has come, answers it, closes the connection. */
#include "http.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "http_entry.h"
#include "signals.h"

#define REQUEST_US 2000000u
#define PAGE_BYTES (288u * 1024u) /* 256 models with the longest names, and every flag of the engine */
#define SEND_BYTES                                                                                                     \
    (2 *                                                                                                               \
     (int)                                                                                                             \
         PAGE_BYTES) /* the socket's send buffer: it takes the whole page at once, so nobody waits for a slow reader */
#define BACKLOG     128
#define WAITING_MAX 128u

struct worker_http {
    struct http_entry *entry;
    int fd;
    struct vitals *vitals;
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
                         : status == 400 ? "Bad Request"
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

/* Exactly one Host header, or none in HTTP/1.0: with two, a proxy in front may use another one than we do. */
static bool hosts_fit(const char *head)
{
    unsigned hosts = 0;
    const char *end = strchr(head, '\n');
    bool old = end && end - head >= 9 && (memcmp(end - 8, "HTTP/1.0", 8) == 0 || memcmp(end - 9, "HTTP/1.0\r", 9) == 0);
    for (const char *line = end; line; line = strchr(line + 1, '\n'))
        hosts += strncasecmp(line + 1, "Host", 4) == 0 && line[5 + strspn(line + 5, " \t")] == ':';
    return hosts == 1 || (hosts == 0 && old);
}

void worker_http_serve(int fd, struct vitals *vitals, char *page, size_t room)
{
    char head[HTTP_ENTRY_HEAD_BYTES + 1], method[8] = "", path[128] = "";
    uint64_t now_us = clock_now_us();
    if (read_head(fd, head, sizeof head) == 0 || sscanf(head, "%7s %127s", method, path) != 2)
        return;
    if (strcmp(method, "GET") != 0)
        answer_text(fd, 405, "only GET is answered here\n");
    else if (!hosts_fit(head))
        answer_text(fd, 400, "a request of HTTP/1.1 has one Host header\n");
    else if (strcmp(path, "/v2/health/live") == 0)
        answer_health(fd, "live", vitals_live(vitals, now_us));
    else if (strcmp(path, "/v2/health/ready") == 0)
        answer_health(fd, "ready", vitals_live(vitals, now_us) && vitals_ready(vitals));
    else if (strcmp(path, "/metrics") == 0)
        answer(fd, 200, "text/plain; version=0.0.4; charset=utf-8", page, vitals_text(vitals, now_us, page, room));
    else
        answer_text(fd, 404, "there are /metrics /v2/health/live /v2/health/ready\n");
}

static enum http_entry_verdict on_guest(void *context, const struct http_entry_guest *guest)
{
    struct worker_http *http = context;
    int bytes = SEND_BYTES;
    setsockopt(guest->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    worker_http_serve(guest->fd, http->vitals, http->page, sizeof http->page);
    close(guest->fd);
    return HTTP_ENTRY_TAKEN;
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

/* Its signals go to the network thread. */
static enum pen_status open_door(struct worker_http *http)
{
    sigset_t before;
    const struct http_entry_options door = {
        .fd = http->fd, .waiting_max = WAITING_MAX, .request_us = REQUEST_US, .take = on_guest, .context = http};
    signals_block(&before);
    enum pen_status status = http_entry_start(&door, &http->entry, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum pen_status worker_http_start(const char *address, struct vitals *vitals, struct worker_http **ret_http,
                                  struct pen_error *reterr)
{
    int fd = -1;
    enum pen_status status = listen_on(address, &fd, reterr);
    if (status != PEN_OK)
        return status;
    struct worker_http *http = calloc(1, sizeof *http);
    if (http) {
        http->fd = fd;
        http->vitals = vitals;
        note_address(http);
        if (open_door(http) == PEN_OK) {
            *ret_http = http;
            return PEN_OK;
        }
    } else {
        close(fd);
    }
    free(http);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "--metrics %s: no memory or no thread for it", address);
}

const char *worker_http_address(const struct worker_http *http)
{
    return http->address;
}

void worker_http_stop(struct worker_http *http)
{
    if (!http)
        return;
    http_entry_stop(http->entry);
    free(http);
}
