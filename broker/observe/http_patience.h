/*
 * http_patience.h - how long an HTTP connection may take for a request and for reading its answer, however little it says or reads at a time.
 *
 * libmicrohttpd ends connections that are silent; one byte a second is not silent, and would keep one of the few connections for ever. A thread shuts such
 * connections down; libmicrohttpd then ends them as it ends those that their peers have left.
 * Threads: patience_new, patience_free: owner; patience_notify, patience_answers, patience_asks: those of libmicrohttpd; patience_count,
 * patience_make_room: any.
 */
#ifndef HTTP_PATIENCE_H
#define HTTP_PATIENCE_H

#include <microhttpd.h>

#include "metrics_post.h"

struct patience;
/* connections_max: as many as the daemon takes. Sleeps on the post, which is borrowed: patience_free comes after post_close. NULL: no memory or no thread. */
struct patience *patience_new(struct post *post, unsigned connections_max);
void patience_free(struct patience *patience); /* after the daemon's end; NULL is fine */

/* What stands for an address (without the port) below; 0: none is known. */
uint64_t patience_address(const struct sockaddr *address);

struct patience_count {
    unsigned held, same; /* connections now; of that address */
    uint64_t begun;      /* ever */
};
struct patience_count patience_count(struct patience *patience, uint64_t address);
/* Ends the connection that has waited longest for its next request, if there is one. */
void patience_make_room(struct patience *patience);

/* For MHD_OPTION_NOTIFY_CONNECTION, with the patience as context. */
void patience_notify(void *patience, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code);
/* The request has come and is answered. */
void patience_answers(struct patience *patience, struct MHD_Connection *connection);
/* The same by a stream of events, which may be read for as long as its reader likes. */
void patience_streams(struct patience *patience, struct MHD_Connection *connection);
/* For MHD_OPTION_NOTIFY_COMPLETED: the next request may come. */
void patience_asks(void *patience, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code);

#endif
