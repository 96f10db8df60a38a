#include "grpc_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "grpc_connection.h"

#define EVENTS_MAX 256
#define LOOK_US    100000u
#define KEEP_S     60 /* of silence, then the system asks whether the peer is there */

struct grpc_server {
    struct grpc_shared shared; /* the first member */
    int poller;
    uint64_t looked_us;
    struct door door;
};

static struct grpc_connection *connection_of(struct guest *guest)
{
    return (struct grpc_connection *)(void *)guest;
}

static void on_ended(struct grpc_shared *shared, struct grpc_connection *connection)
{
    door_leave(&((struct grpc_server *)shared)->door, &connection->guest);
}

static void on_blocked(struct grpc_shared *shared, struct grpc_connection *connection, bool yes)
{
    struct epoll_event event = {.events = yes ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
    epoll_ctl(((struct grpc_server *)shared)->poller, EPOLL_CTL_MOD, connection->guest.fd, &event);
}

/* Without a call. */
static bool may_go(const struct guest *guest)
{
    return ((const struct grpc_connection *)(const void *)guest)->streams_count == 0;
}

static bool begin(void *context, struct guest *guest)
{
    struct grpc_server *server = context;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};
    int one = 1, keep_s = KEEP_S;
    connection_of(guest)->shared = &server->shared;
    setsockopt(guest->fd, SOL_SOCKET, SO_KEEPALIVE, &one,
               sizeof one); /* a call may wait for long: peers that vanish are found */
    setsockopt(guest->fd, IPPROTO_TCP, TCP_KEEPIDLE, &keep_s, sizeof keep_s);
    return epoll_ctl(server->poller, EPOLL_CTL_ADD, guest->fd, &event) == 0 &&
           grpc_connection_open(connection_of(guest));
}

static void close_guest(struct guest *guest)
{
    grpc_connection_close(connection_of(guest));
}

static void free_left(struct grpc_server *server)
{
    struct guest *guest;
    while ((guest = server->door.left)) {
        server->door.left = guest->next;
        free(guest);
    }
}

static void open_door(struct grpc_server *server)
{
    const struct grpc_server_options *options = &server->shared.options;
    door_open(&server->door, &(struct door_rules){.fd = options->fd,
                                                  .poller = server->poller,
                                                  .connections_max = options->connections_max,
                                                  .address_max = options->address_max,
                                                  .guest_bytes = sizeof(struct grpc_connection),
                                                  .begin = begin,
                                                  .may_go = may_go,
                                                  .close = close_guest,
                                                  .server = server});
}

enum pen_status grpc_server_new(const struct grpc_server_options *options, struct grpc_server **ret_server)
{
    struct grpc_server *server = calloc(1, sizeof *server);
    if (!server) {
        close(options->fd);
        return PEN_ERR_NO_MEMORY;
    }
    server->shared = (struct grpc_shared){.options = *options, .ended = on_ended, .blocked = on_blocked};
    server->poller = epoll_create1(EPOLL_CLOEXEC);
    open_door(server);
    if (server->poller < 0 || !grpc_shared_init(&server->shared)) {
        grpc_server_free(server);
        return PEN_ERR_NO_MEMORY;
    }
    *ret_server = server;
    return PEN_OK;
}

void grpc_server_free(struct grpc_server *server)
{
    if (!server)
        return;
    grpc_server_drain(server);
    while (server->door.first)
        close_guest(server->door.first);
    free_left(server);
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
            door_let_in(&server->door);
            continue;
        }
        if (!connection->closed && (events[i].events & EPOLLOUT))
            grpc_connection_run(connection);
        if (!connection->closed && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            grpc_connection_read(connection);
    }
    free_left(server);
}

void grpc_server_look(struct grpc_server *server, uint64_t now_us)
{
    if (now_us - server->looked_us < LOOK_US)
        return;
    server->looked_us = now_us;
    for (struct guest *at = server->door.first, *next; at; at = next) {
        next = at->next;
        grpc_connection_look(connection_of(at), now_us);
    }
    door_listen(&server->door, true);
    free_left(server);
}

void grpc_server_drain(struct grpc_server *server)
{
    server->shared.draining = true;
    if (server->door.shut)
        return;
    door_shut(&server->door);
    for (struct guest *at = server->door.first, *next; at; at = next) {
        next = at->next;
        grpc_connection_drain(connection_of(at));
    }
}

unsigned grpc_server_under_way(const struct grpc_server *server)
{
    return server->shared.under_way;
}

struct grpc_counts grpc_server_counts(const struct grpc_server *server)
{
    struct grpc_counts counts = server->shared.counts;
    counts.connections = server->door.count;
    counts.accepted = server->door.accepted;
    counts.turned_away = server->door.turned_away;
    return counts;
}
