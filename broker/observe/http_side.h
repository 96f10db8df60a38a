/*
 * http_side.h - one of the two HTTP daemons: one serves all pages; the other one serves only /v2/health/, so that other
 * requests cannot use up its connections.
 *
 * A connection comes here when its request has come (http_entry.h). It has a thread while it is answered, and for its
 * further requests.
 * Threads: side_open, side_close: owner; side_take: the door's.
 */
#ifndef HTTP_SIDE_H
#define HTTP_SIDE_H

#include <microhttpd.h>

#include "http_entry.h"
#include "http_patience.h"

struct side {
    struct MHD_Daemon *daemon;
    struct patience *patience;
    void *context;             /* the owner's; passed to on_request */
    unsigned max, address_max; /* connections in all; of one address */
    bool once;                 /* a connection may send one request only */
    uint64_t handed, handed_us;
};

/* The caller sets the three limits and the context first. PEN_ERR_IO: no memory, no thread. `post` is borrowed until
   side_close. */
enum pen_status side_open(struct side *side, MHD_AccessHandlerCallback on_request, struct post *post);
/* Call it after post_close. A side that was never opened is fine. */
void side_close(struct side *side);

enum http_entry_verdict side_take(struct side *side, const struct http_entry_guest *guest);

#endif
