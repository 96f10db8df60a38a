/*
 * bench_http ADDRESS PORT PATH CONNECTIONS SECONDS HEADER_BYTES FILE - a load over HTTP/1.1 from one thread: each connection sends the same POST, waits for
 * its answer and sends it again. FILE is the body; HEADER_BYTES > 0 says how many of its bytes are JSON (Inference-Header-Content-Length). With FILE = idle
 * the connections are opened and say nothing for SECONDS.
 *
 * Prints one line: `requests=N seconds=S bytes_per_s=B p50_us=P p99_us=Q errors=E`. Bytes are those of the bodies sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deadline.h"

#define SAMPLES_MAX 4000000u

struct guest {
    int fd;
    size_t sent, got, wanted; /* wanted: bytes of the whole answer, 0 = its head has not come */
    uint64_t began_us;
    char head[4096];
};

static char *request;
static size_t request_bytes, body_bytes;
static uint32_t *samples;
static size_t samples_count, errors;

static void stop(const char *what)
{
    fprintf(stderr, "bench_http: %s: %s\n", what, strerror(errno));
    exit(1);
}

static char *file_read_all(const char *path, size_t *ret_bytes)
{
    struct stat at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &at) != 0)
        stop(path);
    char *text = malloc((size_t)at.st_size + 1);
    if (!text || read(fd, text, (size_t)at.st_size) != at.st_size)
        stop(path);
    close(fd);
    *ret_bytes = (size_t)at.st_size;
    return text;
}

static void request_make(const char *path, const char *header_bytes, const char *file)
{
    char *body = file_read_all(file, &body_bytes), line[96] = "";
    if (strcmp(header_bytes, "0") != 0)
        snprintf(line, sizeof line, "Inference-Header-Content-Length: %s\r\n", header_bytes);
    request = malloc(body_bytes + 1024);
    if (!request)
        stop("memory");
    request_bytes = (size_t)snprintf(
        request, 1024, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", path, line, body_bytes);
    memcpy(request + request_bytes, body, body_bytes);
    request_bytes += body_bytes;
    free(body);
}

static int guest_open(const char *address, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || fd < 0 ||
        connect(fd, (struct sockaddr *)(void *)&to, sizeof to) != 0)
        stop("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void guest_send(struct guest *guest)
{
    while (guest->sent < request_bytes) {
        ssize_t count = send(guest->fd, request + guest->sent, request_bytes - guest->sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN)
            return;
        if (count < 0)
            stop("send");
        guest->sent += (size_t)count;
    }
}

/* The answer's size, once its head is there. */
static void head_look(struct guest *guest)
{
    guest->head[guest->got < sizeof guest->head - 1 ? guest->got : sizeof guest->head - 1] = '\0';
    const char *end = strstr(guest->head, "\r\n\r\n");
    const char *length = strcasestr(guest->head, "\r\ncontent-length:");
    if (!end || !length)
        return;
    guest->wanted = (size_t)(end - guest->head) + 4 + strtoul(length + 17, NULL, 10);
    if (strncmp(guest->head, "HTTP/1.1 200", 12) != 0 && errors++ == 0)
        fprintf(stderr, "bench_http: %.300s\n", guest->head);
}

static void guest_begin(struct guest *guest)
{
    guest->sent = guest->got = guest->wanted = 0;
    guest->began_us = clock_now_us();
    guest_send(guest);
}

static void guest_receive(struct guest *guest)
{
    static char rest[1u << 20];
    for (;;) {
        bool head = guest->wanted == 0;
        char *to = head ? guest->head + guest->got : rest;
        ssize_t count = recv(guest->fd, to, head ? sizeof guest->head - 1 - guest->got : sizeof rest, 0);
        if (count < 0 && errno == EAGAIN)
            return;
        if (count <= 0)
            stop("the server closed the connection");
        guest->got += (size_t)count;
        if (head)
            head_look(guest);
        if (guest->wanted != 0 && guest->got >= guest->wanted) {
            if (samples_count < SAMPLES_MAX)
                samples[samples_count++] = (uint32_t)(clock_now_us() - guest->began_us);
            guest_begin(guest);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void load(struct guest *guests, unsigned count, double seconds)
{
    int poller = epoll_create1(EPOLL_CLOEXEC);
    uint64_t begin_us = clock_now_us(), until_us = begin_us + (uint64_t)(seconds * 1e6), now_us = begin_us;
    for (unsigned i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &guests[i]};
        epoll_ctl(poller, EPOLL_CTL_ADD, guests[i].fd, &event);
        guest_begin(&guests[i]);
    }
    while ((now_us = clock_now_us()) < until_us) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, 100);
        for (int i = 0; i < ready; i++) {
            guest_send(events[i].data.ptr);
            guest_receive(events[i].data.ptr);
        }
    }
    double took = (double)(now_us - begin_us) * 1e-6;
    qsort(samples, samples_count, sizeof *samples, by_size);
    printf("requests=%zu seconds=%.2f bytes_per_s=%.0f p50_us=%u p99_us=%u errors=%zu\n", samples_count, took,
           (double)samples_count * (double)body_bytes / took, samples_count ? samples[samples_count / 2] : 0,
           samples_count ? samples[samples_count * 99 / 100] : 0, errors);
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    if (argc != 8) {
        fprintf(stderr, "usage: bench_http ADDRESS PORT PATH CONNECTIONS SECONDS HEADER_BYTES FILE|idle\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    unsigned count = (unsigned)atoi(argv[4]);
    struct guest *guests = calloc(count, sizeof *guests);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (!guests || !samples)
        stop("memory");
    for (unsigned i = 0; i < count; i++)
        guests[i].fd = guest_open(argv[1], argv[2]);
    if (strcmp(argv[7], "idle") == 0) {
        printf("connections=%u\n", count);
        fflush(stdout);
        poll(NULL, 0, (int)(atof(argv[5]) * 1000));
        return 0;
    }
    request_make(argv[3], argv[6], argv[7]);
    load(guests, count, atof(argv[5]));
    return 0;
}
