/*
 * connection.h - which broker a session speaks to: opened, welcomed no more, lost, left for another, refused, ended.
 *
 * All calls need the client's lock and the socket (core.h). Threads: owner.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "core.h"

/* Chooses the broker to begin with: each client another, so that they spread over the list. */
void connection_spread(struct pen_client *client);
/* The one that was spoken to does not answer: the next of the list has its turn. */
void connection_next_broker(struct pen_client *client);

/* Opens a socket and says hello; what cannot be opened is tried again later, with the next broker. */
void connection_open(struct pen_client *client, uint64_t now_us);
/* How long a hello waits for its welcome. */
uint64_t connection_hello_wait_us(const struct pen_client *client);
/* The broker does not know us any more: hello again, on the same socket. */
void connection_resume(struct pen_client *client, uint64_t now_us);

/* The connection goes; the same broker is asked again. Of a refused session: nothing. */
void connection_drop(struct pen_client *client, uint64_t now_us);
/* The connection is gone: all unanswered jobs go out again on a new socket, to the next broker. */
void connection_lost(struct pen_client *client, uint64_t now_us);
/* Says goodbye to a draining broker; what it has not answered is sent to the next. */
void connection_leave(struct pen_client *client, uint64_t now_us);
/* Says goodbye to a broker that sent us to another one: goes there, under the same uuid, with all unanswered jobs. */
void connection_move(struct pen_client *client, const char *endpoint, uint64_t now_us);
/* The endpoint that is spoken to, or tried. */
const char *connection_place(const struct pen_client *client);
/* The broker will never have us: all jobs and questions end with that status. */
void connection_refuse(struct pen_client *client, enum pen_status status, const char *text);
/* Says goodbye and closes the socket; all jobs and questions end. */
void connection_end(struct pen_client *client);

/* What went wrong on the way to a welcome; "" = nothing known. */
const char *connection_trouble(const struct pen_client *client);

#endif
