/*
 * http_patience.h - limits how long an HTTP connection may take to send a request and to read its answer, even when it
 * sends or reads a little all the time.
 *
 * libmicrohttpd ends silent connections. A peer that sends one byte a second is not silent, and could hold one of the
 * few connections for ever. A thread shuts such connections down; libmicrohttpd then sees them as closed by their
 * peers.
 * Threads: patience_new, patience_free: owner; patience_notify, patience_answers, patience_asks: those of
 * libmicrohttpd; patience_count, patience_make_room: any.
 */
#ifndef HTTP_PATIENCE_H
#define HTTP_PATIENCE_H

#include <microhttpd.h>

#include "metrics_post.h"

struct patience;
/* connections_max: as many as the daemon takes. The thread sleeps on the post, which is borrowed: call patience_free
   after post_close. NULL: no memory or no thread. */
struct patience *patience_new(struct post *post, unsigned connections_max);
void patience_free(struct patience *patience); /* call it after the daemon has ended; NULL is fine */

/* The number that stands for an address (without the port) in the calls below; 0: no address is known. */
uint64_t patience_address(const struct sockaddr *address);

struct patience_count {
    unsigned held, same; /* open connections: all; those of that address */
    uint64_t begun;      /* all connections so far */
};
struct patience_count patience_count(struct patience *patience, uint64_t address);
/* Ends the connection that has waited longest for its next request. Does nothing when none waits. */
void patience_make_room(struct patience *patience);

/* For MHD_OPTION_NOTIFY_CONNECTION, with the patience as context. */
void patience_notify(void *patience, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code);
/* The request has come, and is being answered. */
void patience_answers(struct patience *patience, struct MHD_Connection *connection);
/* The same for a stream of events, which may be read for any length of time. */
void patience_streams(struct patience *patience, struct MHD_Connection *connection);
/* For MHD_OPTION_NOTIFY_COMPLETED: the connection waits for its next request. */
void patience_asks(void *patience, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code);

#endif
