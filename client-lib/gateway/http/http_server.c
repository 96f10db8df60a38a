#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "deadline.h"
#include "http_connection.h"

#define EVENTS_MAX  256
#define LOOK_US     250000u
#define WATCHES_MAX 512u

struct http_watch {
    void (*ready)(void *arg);
    void *arg;
};

struct http_server {
    struct connection_shared shared; /* the first member */
    int poller;
    struct http_connection *again; /* to be run before the next wait */
    uint64_t looked_us;
    unsigned watches_count;
    struct http_watch watches[WATCHES_MAX];
    struct door door;
};

/* What an event carries: a watch, the listening socket, or a connection. */
static struct http_watch *watch_of(struct http_server *server, void *pointer)
{
    struct http_watch *watch = pointer;
    return watch >= server->watches && watch < server->watches + server->watches_count ? watch : NULL;
}

/* ---- connections ---- */

static struct http_connection *connection_of(struct guest *guest)
{
    return (struct http_connection *)(void *)guest;
}

static void on_ended(struct connection_shared *shared, struct http_connection *connection)
{
    door_leave(&((struct http_server *)shared)->door, &connection->guest);
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

/* Between two requests; or a spare one that has not asked yet. */
static bool may_go(const struct guest *guest)
{
    const struct http_connection *connection = (const void *)guest;
    return connection_is_idle(connection) || (guest->spare && connection->state == CONNECTION_HEAD);
}

static bool begin(void *context, struct guest *guest)
{
    struct http_server *server = context;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = guest};
    connection_of(guest)->shared = &server->shared;
    return epoll_ctl(server->poller, EPOLL_CTL_ADD, guest->fd, &event) == 0;
}

static void close_guest(struct guest *guest)
{
    connection_close(connection_of(guest));
}

/* ---- life ---- */

static void open_door(struct http_server *server)
{
    const struct http_server_options *options = &server->shared.options;
    door_open(&server->door, &(struct door_rules){.fd = options->fd,
                                                  .poller = server->poller,
                                                  .connections_max = options->connections_max,
                                                  .address_max = options->address_max,
                                                  .guest_bytes = sizeof(struct http_connection),
                                                  .begin = begin,
                                                  .may_go = may_go,
                                                  .close = close_guest,
                                                  .server = server});
}

enum pen_status http_server_new(const struct http_server_options *options, struct http_server **ret_server)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (server) {
        server->shared = (struct connection_shared){.options = *options, .ended = on_ended, .again = on_again};
        server->poller = epoll_create1(EPOLL_CLOEXEC);
    }
    if (!server || server->poller < 0) {
        free(server);
        close(options->fd);
        return PEN_ERR_NO_MEMORY;
    }
    open_door(server);
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
static void free_left(struct http_server *server)
{
    struct guest **link = &server->door.left, *guest;
    while ((guest = *link)) {
        if (connection_of(guest)->in_again) {
            link = &guest->next;
            continue;
        }
        *link = guest->next;
        free(guest);
    }
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    http_server_drain(server);
    while (server->door.first)
        close_guest(server->door.first);
    run_again(server);
    free_left(server);
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
    door_shut(&server->door);
    for (struct guest *at = server->door.first, *next; at; at = next) {
        next = at->next;
        if (connection_is_idle(connection_of(at)))
            close_guest(at);
    }
}

unsigned http_server_under_way(const struct http_server *server)
{
    return server->shared.under_way;
}

struct http_counts http_server_counts(const struct http_server *server)
{
    struct http_counts counts = server->shared.counts;
    counts.connections = server->door.count;
    counts.accepted = server->door.accepted;
    counts.turned_away = server->door.turned_away;
    return counts;
}

/* ---- turns ---- */

static void on_event(struct http_server *server, const struct epoll_event *event)
{
    struct http_watch *watch = watch_of(server, event->data.ptr);
    struct http_connection *connection = event->data.ptr;
    if (watch) {
        watch->ready(watch->arg);
    } else if (event->data.ptr == server) {
        door_let_in(&server->door);
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
    for (struct guest *at = server->door.first, *next; at; at = next) {
        next = at->next;
        connection_look(connection_of(at), now_us);
    }
    door_listen(&server->door, true);
}

void http_server_turn(struct http_server *server, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(server->poller, events, EVENTS_MAX, server->again ? 0 : timeout_ms);
    for (int i = 0; i < count; i++)
        on_event(server, &events[i]);
    run_again(server);
    look(server);
    free_left(server);
}
