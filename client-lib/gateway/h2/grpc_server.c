#include "grpc_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address_table.h"
#include "deadline.h"
#include "grpc_connection.h"

#define SPARES_MAX  64u
#define EVENTS_MAX  256
#define ACCEPTS_MAX 64
#define LOOK_US     100000u
#define KEEP_S      60 /* of silence, then the system asks whether the peer is there */

struct grpc_server {
    struct grpc_shared shared; /* the first member */
    int poller;
    bool accepting;
    unsigned count, spares;
    struct grpc_connection *first;
    struct grpc_connection *ended; /* to be freed at the turn's end */
    uint64_t looked_us;
    struct address_table addresses;
};

static void accept_again(struct grpc_server *server, bool yes)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};
    if (server->accepting == yes || server->shared.options.fd < 0)
        return;
    epoll_ctl(server->poller, yes ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, server->shared.options.fd, &event);
    server->accepting = yes;
}

static void on_connection_ended(struct grpc_shared *shared, struct grpc_connection *connection)
{
    struct grpc_server *server = (struct grpc_server *)shared;
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
        accept_again(server, true);
}

static void on_blocked(struct grpc_shared *shared, struct grpc_connection *connection, bool yes)
{
    struct epoll_event event = {.events = yes ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
    epoll_ctl(((struct grpc_server *)shared)->poller, EPOLL_CTL_MOD, connection->fd, &event);
}

/* Who has been silent longest without a call makes room. */
static bool make_room(struct grpc_server *server)
{
    struct grpc_connection *longest = NULL;
    for (struct grpc_connection *at = server->first; at; at = at->next)
        if (at->streams_count == 0 && (!longest || at->since_us < longest->since_us))
            longest = at;
    if (longest)
        grpc_connection_close(longest);
    return longest != NULL;
}

static void welcome(struct grpc_server *server, int fd, const struct sockaddr_storage *address)
{
    const struct grpc_server_options *options = &server->shared.options;
    struct grpc_connection *connection = calloc(1, sizeof *connection);
    unsigned same = 0;
    int one = 1, keep_s = KEEP_S;
    if (!connection || !address_add(&server->addresses, address_key(address), &same)) {
        free(connection);
        close(fd);
        return;
    }
    *connection = (struct grpc_connection){.shared = &server->shared,
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
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one,
               sizeof one); /* a call may wait for long: peers that vanish are found */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keep_s, sizeof keep_s);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(server->poller, EPOLL_CTL_ADD, fd, &event) != 0 || !grpc_connection_open(connection))
        grpc_connection_close(connection);
}

static void take_in(struct grpc_server *server)
{
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof address;
        if (server->spares >= SPARES_MAX && !make_room(server)) {
            accept_again(server, false);
            return;
        }
        int fd = accept4(server->shared.options.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && make_room(server))
            continue;
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                accept_again(server, false); /* until a connection ends, or the next look */
            return;
        }
        if (fd >= 0)
            welcome(server, fd, &address);
    }
}

static void free_ended(struct grpc_server *server)
{
    struct grpc_connection *connection;
    while ((connection = server->ended)) {
        server->ended = connection->next;
        free(connection);
    }
}

enum pen_status grpc_server_new(const struct grpc_server_options *options, struct grpc_server **ret_server)
{
    struct grpc_server *server = calloc(1, sizeof *server);
    if (!server) {
        close(options->fd);
        return PEN_ERR_NO_MEMORY;
    }
    server->shared = (struct grpc_shared){.options = *options, .ended = on_connection_ended, .blocked = on_blocked};
    server->poller = epoll_create1(EPOLL_CLOEXEC);
    if (server->poller < 0 || !grpc_shared_init(&server->shared)) {
        grpc_server_free(server);
        return PEN_ERR_NO_MEMORY;
    }
    accept_again(server, true);
    *ret_server = server;
    return PEN_OK;
}

void grpc_server_free(struct grpc_server *server)
{
    if (!server)
        return;
    grpc_server_drain(server);
    while (server->first)
        grpc_connection_close(server->first);
    free_ended(server);
    if (server->poller >= 0)
        close(server->poller);
    grpc_shared_fini(&server->shared);
    free(server);
}

int grpc_server_fd(const struct grpc_server *server)
{
    return server->poller;
}

void grpc_server_ready(void *context)
{
    struct grpc_server *server = context;
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(server->poller, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        struct grpc_connection *connection = events[i].data.ptr;
        if (events[i].data.ptr == server) {
            take_in(server);
            continue;
        }
        if (!connection->closed && (events[i].events & EPOLLOUT))
            grpc_connection_run(connection);
        if (!connection->closed && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            grpc_connection_read(connection);
    }
    free_ended(server);
}

void grpc_server_look(struct grpc_server *server, uint64_t now_us)
{
    if (now_us - server->looked_us < LOOK_US)
        return;
    server->looked_us = now_us;
    for (struct grpc_connection *at = server->first, *next; at; at = next) {
        next = at->next;
        grpc_connection_look(at, now_us);
    }
    if (!server->shared.draining)
        accept_again(server, true);
    free_ended(server);
}

void grpc_server_drain(struct grpc_server *server)
{
    server->shared.draining = true;
    if (server->shared.options.fd < 0)
        return;
    if (server->poller >= 0)
        accept_again(server, false);
    close(server->shared.options.fd);
    server->shared.options.fd = -1;
    for (struct grpc_connection *at = server->first, *next; at; at = next) {
        next = at->next;
        grpc_connection_drain(at);
    }
}

unsigned grpc_server_under_way(const struct grpc_server *server)
{
    return server->shared.under_way;
}

struct grpc_counts grpc_server_counts(const struct grpc_server *server)
{
    return server->shared.counts;
}
