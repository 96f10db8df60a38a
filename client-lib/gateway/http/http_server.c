#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address_table.h"
#include "deadline.h"
#include "http_connection.h"

#define SPARES_MAX  64u /* beside connections_max */
#define EVENTS_MAX  256
#define ACCEPTS_MAX 64 /* in one turn */
#define LOOK_US     250000u
#define WATCHES_MAX 512u

struct http_watch {
    void (*ready)(void *arg);
    void *arg;
};

struct http_server {
    struct connection_shared shared; /* the first member */
    int poller;
    bool accepting;
    unsigned count, spares;
    struct http_connection *first;
    struct http_connection *again; /* to be run before the next wait */
    struct http_connection *ended; /* to be freed at the turn's end */
    uint64_t looked_us;
    unsigned watches_count;
    struct http_watch watches[WATCHES_MAX];
    struct address_table addresses;
};

/* What an event carries: a watch, the listening socket, or a connection. */
static struct http_watch *watch_of(struct http_server *server, void *pointer)
{
    struct http_watch *watch = pointer;
    return watch >= server->watches && watch < server->watches + server->watches_count ? watch : NULL;
}

/* ---- connections ---- */

static void listen_again(struct http_server *server, bool yes)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};
    if (server->accepting == yes || server->shared.options.fd < 0)
        return;
    epoll_ctl(server->poller, yes ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, server->shared.options.fd, &event);
    server->accepting = yes;
}

static void on_ended(struct connection_shared *shared, struct http_connection *connection)
{
    struct http_server *server = (struct http_server *)shared;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    address_remove(&server->addresses, connection->address);
    server->count--;
    server->spares -= connection->spare;
    shared->counts.connections = server->count;
    connection->next = server->ended;
    server->ended = connection;
    if (!shared->draining)
        listen_again(server, true);
}

static void on_again(struct connection_shared *shared, struct http_connection *connection)
{
    struct http_server *server = (struct http_server *)shared;
    if (connection->in_again)
        return;
    connection->in_again = true;
    connection->next_again = server->again;
    server->again = connection;
}

/* Who has been silent longest between two requests makes room; else, among the spare ones, who has not asked yet. */
static bool make_room(struct http_server *server)
{
    struct http_connection *longest = NULL;
    for (struct http_connection *at = server->first; at; at = at->next) {
        bool can_go = connection_is_idle(at) || (at->spare && at->state == CONNECTION_HEAD);
        if (can_go && (!longest || at->since_us < longest->since_us))
            longest = at;
    }
    if (longest)
        connection_close(longest);
    return longest != NULL;
}

static void welcome(struct http_server *server, int fd, const struct sockaddr_storage *address)
{
    const struct http_server_options *options = &server->shared.options;
    struct http_connection *connection = calloc(1, sizeof *connection);
    unsigned same = 0;
    int one = 1;
    if (!connection || !address_add(&server->addresses, address_key(address), &same)) {
        free(connection);
        close(fd);
        return;
    }
    *connection = (struct http_connection){.shared = &server->shared,
                                           .fd = fd,
                                           .next = server->first,
                                           .address = address_key(address),
                                           .local = address_is_local(address),
                                           .spare = server->count - server->spares >= options->connections_max ||
                                                    same > options->address_max,
                                           .since_us = clock_now_us()};
    if (server->first)
        server->first->previous = connection;
    server->first = connection;
    server->count++;
    server->spares += connection->spare;
    server->shared.counts.connections = server->count;
    server->shared.counts.accepted++;
    server->shared.counts.turned_away += connection->spare;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(server->poller, EPOLL_CTL_ADD, fd, &event) != 0)
        connection_close(connection);
}

static void take_in(struct http_server *server)
{
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof address;
        if (server->spares >= SPARES_MAX && !make_room(server)) {
            listen_again(server, false);
            return;
        }
        int fd = accept4(server->shared.options.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && make_room(server))
            continue;
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                listen_again(server, false); /* until a connection ends, or the next look */
            return;
        }
        if (fd >= 0)
            welcome(server, fd, &address);
    }
}

/* ---- life ---- */

enum pen_status http_server_new(const struct http_server_options *options, struct http_server **ret_server)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (server) {
        server->shared = (struct connection_shared){.options = *options, .ended = on_ended, .again = on_again};
        server->poller = epoll_create1(EPOLL_CLOEXEC);
        listen_again(server, true);
    }
    if (!server || server->poller < 0) {
        free(server);
        close(options->fd);
        return PEN_ERR_NO_MEMORY;
    }
    *ret_server = server;
    return PEN_OK;
}

static void run_again(struct http_server *server)
{
    struct http_connection *at = server->again;
    server->again = NULL;
    while (at) {
        struct http_connection *next = at->next_again;
        at->in_again = false;
        connection_run(at);
        at = next;
    }
}

/* One that is to be run again is freed a turn later. */
static void free_ended(struct http_server *server)
{
    struct http_connection **link = &server->ended, *connection;
    while ((connection = *link)) {
        if (connection->in_again) {
            link = &connection->next;
            continue;
        }
        *link = connection->next;
        free(connection);
    }
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    http_server_drain(server);
    while (server->first)
        connection_close(server->first);
    run_again(server);
    free_ended(server);
    http_shelf_fini(&server->shared.shelf);
    close(server->poller);
    free(server);
}

bool http_server_watch(struct http_server *server, int fd, void (*ready)(void *arg), void *arg)
{
    if (server->watches_count == WATCHES_MAX)
        return false;
    struct http_watch *watch = &server->watches[server->watches_count];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    *watch = (struct http_watch){ready, arg};
    if (epoll_ctl(server->poller, EPOLL_CTL_ADD, fd, &event) != 0)
        return false;
    server->watches_count++;
    return true;
}

void http_server_drain(struct http_server *server)
{
    server->shared.draining = true;
    if (server->shared.options.fd < 0)
        return;
    listen_again(server, false);
    close(server->shared.options.fd);
    server->shared.options.fd = -1;
    for (struct http_connection *at = server->first, *next; at; at = next) {
        next = at->next;
        if (connection_is_idle(at))
            connection_close(at);
    }
}

unsigned http_server_under_way(const struct http_server *server)
{
    return server->shared.under_way;
}

struct http_counts http_server_counts(const struct http_server *server)
{
    return server->shared.counts;
}

/* ---- turns ---- */

static void on_event(struct http_server *server, const struct epoll_event *event)
{
    struct http_watch *watch = watch_of(server, event->data.ptr);
    struct http_connection *connection = event->data.ptr;
    if (watch) {
        watch->ready(watch->arg);
    } else if (event->data.ptr == server) {
        take_in(server);
    } else if (connection->state != CONNECTION_CLOSED) {
        if (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            connection_hang_up(connection);
        connection_ready(connection);
    }
}

static void look(struct http_server *server)
{
    uint64_t now_us = clock_now_us();
    if (now_us - server->looked_us < LOOK_US)
        return;
    server->looked_us = now_us;
    for (struct http_connection *at = server->first, *next; at; at = next) {
        next = at->next;
        connection_look(at, now_us);
    }
    if (!server->shared.draining)
        listen_again(server, true);
}

void http_server_turn(struct http_server *server, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(server->poller, events, EVENTS_MAX, server->again ? 0 : timeout_ms);
    for (int i = 0; i < count; i++)
        on_event(server, &events[i]);
    run_again(server);
    look(server);
    free_ended(server);
}
