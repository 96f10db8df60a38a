#include "http_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "deadline.h"

#define EVENTS_MAX 64
#define TICK_MS    250 /* how often to look for connections that have waited too long */
#define AGAIN_MS   10  /* the same while a connection waits for room in the server */
#define PAUSE_MS   100 /* after an accept that failed */

struct waiter {
    int fd; /* -1: the place is free */
    bool whole;
    unsigned fellows; /* how many connections have this address, itself included */
    uint64_t came_us, until_us;
    uint8_t key[16]; /* the address, IPv4 as mapped into IPv6 */
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

struct http_entry {
    struct http_entry_options options;
    int epoll, end_fd;
    pthread_t thread;
    unsigned later; /* connections with a whole head that found no room */
    char head[HTTP_ENTRY_HEAD_BYTES + 1];
    struct waiter waiters[]; /* [options.waiting_max] */
};

/* ---- places ---- */

static void address_key(const struct sockaddr_storage *address, uint8_t key[16])
{
    memset(key, 0, 16);
    if (address->ss_family == AF_INET6)
        memcpy(key, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    if (address->ss_family != AF_INET)
        return;
    key[10] = key[11] = 0xFF;
    memcpy(key + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
}

/* Returns how many others have the same address. */
static unsigned fellows_change(struct http_entry *entry, const struct waiter *one, int step)
{
    unsigned count = 0;
    for (unsigned i = 0; i < entry->options.waiting_max; i++) {
        struct waiter *other = &entry->waiters[i];
        if (other == one || other->fd < 0 || memcmp(other->key, one->key, sizeof one->key) != 0)
            continue;
        other->fellows += (unsigned)step;
        count++;
    }
    return count;
}

static void leave(struct http_entry *entry, struct waiter *waiter)
{
    fellows_change(entry, waiter, -1);
    entry->later -= waiter->whole;
    waiter->fd = -1;
}

static void drop(struct http_entry *entry, struct waiter *waiter)
{
    close(waiter->fd);
    leave(entry, waiter);
}

/* Reads the bytes that it has sent first: closing a socket with unread bytes would lose the answer. */
static void refuse(struct http_entry *entry, struct waiter *waiter, const char *status, const char *text)
{
    char answer[512];
    int bytes = snprintf(answer, sizeof answer,
                         "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n%s",
                         status, strlen(text), text);
    ssize_t got = recv(waiter->fd, entry->head, HTTP_ENTRY_HEAD_BYTES, MSG_DONTWAIT);
    if (got >= 0 && send(waiter->fd, answer, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == bytes)
        shutdown(waiter->fd, SHUT_WR);
    drop(entry, waiter);
}

/* Is a closed before b to make room? */
static bool goes_first(const struct waiter *a, const struct waiter *b)
{
    if (a->whole != b->whole)
        return !a->whole;
    return a->fellows != b->fellows ? a->fellows > b->fellows : a->came_us < b->came_us;
}

static bool make_room(struct http_entry *entry)
{
    struct waiter *first = NULL;
    for (unsigned i = 0; i < entry->options.waiting_max; i++) {
        struct waiter *waiter = &entry->waiters[i];
        if (waiter->fd >= 0 && (!first || goes_first(waiter, first)))
            first = waiter;
    }
    if (first)
        drop(entry, first);
    return first != NULL;
}

static struct waiter *place(struct http_entry *entry)
{
    for (unsigned i = 0; i < entry->options.waiting_max; i++)
        if (entry->waiters[i].fd < 0)
            return &entry->waiters[i];
    return make_room(entry) ? place(entry) : NULL;
}

/* ---- one of them ---- */

static void hand_over(struct http_entry *entry, struct waiter *waiter)
{
    struct http_entry_guest guest = {waiter->fd, entry->head, waiter->address, waiter->address_bytes};
    if (entry->options.take(entry->options.context, &guest) == HTTP_ENTRY_TAKEN)
        leave(entry, waiter);
}

static ssize_t peek(struct http_entry *entry, const struct waiter *waiter)
{
    ssize_t got = recv(waiter->fd, entry->head, HTTP_ENTRY_HEAD_BYTES, MSG_PEEK | MSG_DONTWAIT);
    entry->head[got > 0 ? got : 0] = '\0';
    return got;
}

static bool is_whole(const char *head, size_t bytes)
{
    return memmem(head, bytes, "\r\n\r\n", 4) || memmem(head, bytes, "\n\n", 2);
}

/* events: of epoll. Once the head is whole, nothing more is awaited from the socket. */
static void look(struct http_entry *entry, struct waiter *waiter, uint32_t events)
{
    ssize_t got = peek(entry, waiter);
    if (got > 0 && is_whole(entry->head, (size_t)got)) {
        epoll_ctl(entry->epoll, EPOLL_CTL_DEL, waiter->fd, NULL);
        waiter->whole = true;
        entry->later++;
        waiter->until_us = clock_now_us() + entry->options.request_us;
        hand_over(entry, waiter);
    } else if (got == HTTP_ENTRY_HEAD_BYTES) {
        refuse(entry, waiter, "431 Request Header Fields Too Large", "the head of a request may have 16 KiB\n");
    } else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) ||
               events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        drop(entry, waiter);
    }
}

static void welcome(struct http_entry *entry, int fd, const struct sockaddr_storage *address, socklen_t bytes)
{
    struct waiter *waiter = place(entry);
    uint64_t now_us = clock_now_us();
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = waiter};
    if (!waiter || epoll_ctl(entry->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    *waiter = (struct waiter){.came_us = now_us, .until_us = now_us + entry->options.request_us, .fd = fd};
    waiter->address = *address;
    waiter->address_bytes = bytes;
    address_key(address, waiter->key);
    waiter->fellows = 1 + fellows_change(entry, waiter, 1);
}

/* False: no descriptor is free, and no connection can make room for one. */
static bool accept_some(struct http_entry *entry)
{
    for (int i = 0; i < EVENTS_MAX; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t bytes = sizeof address;
        int fd = accept4(entry->options.fd, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            welcome(entry, fd, &address, bytes);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return make_room(entry);
        else
            return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    }
    return true;
}

/* ---- all of them ---- */

static void tick(struct http_entry *entry)
{
    uint64_t now_us = clock_now_us();
    for (unsigned i = 0; i < entry->options.waiting_max; i++) {
        struct waiter *waiter = &entry->waiters[i];
        if (waiter->fd >= 0 && now_us >= waiter->until_us && waiter->whole)
            refuse(entry, waiter, "503 Service Unavailable", "too many connections are served; try again later\n");
        else if (waiter->fd >= 0 && now_us >= waiter->until_us)
            refuse(entry, waiter, "408 Request Timeout", "the request took too long to come\n");
        else if (waiter->fd >= 0 && waiter->whole && peek(entry, waiter) <= 0)
            drop(entry, waiter); /* its peer has reset it */
        else if (waiter->fd >= 0 && waiter->whole)
            hand_over(entry, waiter);
    }
}

/*
 * An earlier event of the same batch may have given a place to another connection, so newcomers are accepted after all
 * other events. False: the end.
 */
static bool turn(struct http_entry *entry, uint64_t *tick_us)
{
    struct epoll_event events[EVENTS_MAX];
    bool newcomers = false;
    int count = epoll_wait(entry->epoll, events, EVENTS_MAX, entry->later > 0 ? AGAIN_MS : TICK_MS);
    for (int i = 0; i < count; i++) {
        struct waiter *waiter = events[i].data.ptr;
        if (events[i].data.ptr == &entry->end_fd)
            return false;
        newcomers |= events[i].data.ptr == &entry->options;
        if (events[i].data.ptr != &entry->options && waiter->fd >= 0)
            look(entry, waiter, events[i].events);
    }
    if (newcomers && !accept_some(entry))
        usleep(PAUSE_MS * 1000);
    uint64_t now_us = clock_now_us();
    if (now_us >= *tick_us) {
        tick(entry);
        *tick_us = now_us + (entry->later > 0 ? AGAIN_MS : TICK_MS) * 1000u;
    }
    return true;
}

static void *entry_main(void *context)
{
    struct http_entry *entry = context;
    uint64_t tick_us = 0;
    pthread_setname_np(pthread_self(), "http-entry");
    while (turn(entry, &tick_us))
        continue;
    return NULL;
}

/* ---- life ---- */

static void entry_free(struct http_entry *entry)
{
    for (unsigned i = 0; i < entry->options.waiting_max; i++)
        if (entry->waiters[i].fd >= 0)
            close(entry->waiters[i].fd);
    close(entry->options.fd);
    if (entry->epoll >= 0)
        close(entry->epoll);
    if (entry->end_fd >= 0)
        close(entry->end_fd);
    free(entry);
}

static bool watch(struct http_entry *entry, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(entry->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

enum pen_status http_entry_start(const struct http_entry_options *options, struct http_entry **ret_entry,
                                 struct pen_error *reterr)
{
    struct http_entry *entry = calloc(1, sizeof *entry + options->waiting_max * sizeof entry->waiters[0]);
    if (!entry) {
        close(options->fd);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for connections over HTTP");
    }
    entry->options = *options;
    for (unsigned i = 0; i < options->waiting_max; i++)
        entry->waiters[i].fd = -1;
    entry->epoll = epoll_create1(EPOLL_CLOEXEC);
    entry->end_fd = eventfd(0, EFD_CLOEXEC);
    if (entry->epoll >= 0 && entry->end_fd >= 0 && fcntl(options->fd, F_SETFL, O_NONBLOCK) == 0 &&
        watch(entry, options->fd, &entry->options) && watch(entry, entry->end_fd, &entry->end_fd) &&
        pthread_create(&entry->thread, NULL, entry_main, entry) == 0) {
        *ret_entry = entry;
        return PEN_OK;
    }
    entry_free(entry);
    return pen_error_set(reterr, PEN_ERR_IO, "no descriptor or no thread for connections over HTTP");
}

void http_entry_stop(struct http_entry *entry)
{
    uint64_t one = 1;
    if (!entry)
        return;
    if (write(entry->end_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(entry->thread, NULL);
    entry_free(entry);
}
