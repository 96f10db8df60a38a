/*
 * http_entry.h - the entry of a small HTTP server: connections wait here, without a thread of their own, until the head
 * of a request has come.
 *
 * The entry only peeks at the head and leaves it in the socket, so that the server reads it as usual. A client that
 * sends it slowly, or never ends it, costs only a descriptor. When all places are taken, the entry closes a connection
 * of the address that has the most: the one that has waited longest. So a newcomer always gets a place, and a probe
 * that sends its request at once is served beside any number of slow clients, even from the same address.
 * Threads: owner; `take` is called on the door's thread.
 */
#ifndef HTTP_ENTRY_H
#define HTTP_ENTRY_H

#include <stdint.h>
#include <sys/socket.h>

#include "penstock/status.h"

#define HTTP_ENTRY_HEAD_BYTES (16u * 1024u)

struct http_entry_guest {
    int fd;           /* non-blocking; the whole head can still be read from it */
    const char *head; /* the bytes that have come, with a 0 behind them: at least the whole head */
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

enum http_entry_verdict {
    HTTP_ENTRY_TAKEN, /* the descriptor has a new owner */
    HTTP_ENTRY_LATER  /* no room in the server: asked again soon, for as long as a request may take; then 503 */
};

struct http_entry_options {
    int fd;               /* a listening socket; belongs to the entry from now on, even if the start fails */
    unsigned waiting_max; /* connections without a whole head */
    uint64_t request_us;  /* for the head; then as long again for room in the server */
    enum http_entry_verdict (*take)(void *context, const struct http_entry_guest *guest);
    void *context;
};

struct http_entry;
enum pen_status http_entry_start(const struct http_entry_options *options, struct http_entry **ret_entry,
                                 struct pen_error *reterr);
void http_entry_stop(struct http_entry *entry); /* ends its thread and the waiting connections; NULL is fine */

#endif
