/*
 * http_side.h - one of the two daemons of the HTTP side: that of all pages, and that of /v2/health/, whose connections nobody else can take.
 *
 * A connection comes here when its request is there (http_entry.h), so it has a thread for as long as the answer takes, and for the requests that follow.
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
    void *context;             /* the owner's: on_request gets the side */
    unsigned max, address_max; /* connections; of one address */
    bool once;                 /* one request for each connection */
    uint64_t handed, handed_us;
};

/* The three limits and the context are set by the caller. PEN_ERR_IO: no memory, no thread. `post` is borrowed until side_close. */
enum pen_status side_open(struct side *side, MHD_AccessHandlerCallback on_request, struct post *post);
/* Behind post_close. One that was never opened is fine. */
void side_close(struct side *side);

enum http_entry_verdict side_take(struct side *side, const struct http_entry_guest *guest);

#endif
