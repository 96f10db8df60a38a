/*
 * http_connection.h - one connection of the server: HEAD -> BODY -> WAIT (its handler has the request) -> WRITE -> HEAD, or LINGER -> CLOSED.
 *
 * A connection between two requests owns nothing but itself.
 * Threads: owner - the server's.
 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "door.h"
#include "http_server.h"
#include "http_work.h"

enum connection_state {
    CONNECTION_HEAD,
    CONNECTION_BODY,
    CONNECTION_WAIT,
    CONNECTION_WRITE,
    CONNECTION_LINGER, /* all is said: what the peer still sends is thrown away, so that it can read the answer */
    CONNECTION_CLOSED
};

struct http_connection;

/* What all connections share. */
struct connection_shared {
    struct http_server_options options;
    struct http_counts counts;
    struct http_shelf shelf;
    unsigned under_way;
    bool draining;
    void (*ended)(struct connection_shared *shared,
                  struct http_connection *connection); /* closed: forget it, free it later */
    void (*again)(struct connection_shared *shared,
                  struct http_connection *connection); /* it had its share of this turn */
};

struct http_connection {
    struct guest guest; /* the first member; since_us: in this state */
    struct connection_shared *shared;
    struct http_connection *next_again;
    struct http_work *work; /* NULL between two requests */
    enum connection_state state;
    bool hung_up, running, in_again;
};

/* The socket has bytes or room. Goes on as connection_run(). */
void connection_ready(struct http_connection *connection);
/* Goes on as far as it can without blocking. */
void connection_run(struct http_connection *connection);
/* The peer has gone, or has said that it sends no more: a request under way is given up. */
void connection_hang_up(struct http_connection *connection);
void connection_close(struct http_connection *connection);
bool connection_is_idle(const struct http_connection *connection); /* between two requests */
/* Ends it if its peer is too slow, with a 408 where the peer may still listen. */
void connection_look(struct http_connection *connection, uint64_t now_us);

#endif
