/*
 * http_entry.h - the door of a small HTTP server: connections wait here, without a thread of their own, until the head of a request is there.
 *
 * The head is looked at and left in the socket, so that the server behind the door reads it as if nothing had been. Who sends it slowly, or never ends it,
 * costs a descriptor. When all places are taken, whoever has waited longest of the address that has the most of them makes room: a newcomer always gets one,
 * so a probe that says all at once is served beside any number of slow ones, from its own address too.
 * Threads: owner; `take` is called on the door's thread.
 */
#ifndef HTTP_ENTRY_H
#define HTTP_ENTRY_H

#include <stdint.h>
#include <sys/socket.h>

#include "penstock/status.h"

#define HTTP_ENTRY_HEAD_BYTES (16u * 1024u)

struct http_entry_guest {
    int fd;           /* non-blocking; all of the head is still to be read from it */
    const char *head; /* what has come, with a 0 behind it: at least the whole head */
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

enum http_entry_verdict {
    HTTP_ENTRY_TAKEN, /* the descriptor has a new owner */
    HTTP_ENTRY_LATER /* no room behind the door: asked again soon, for as long as a request may take; then it is told 503 */
};

struct http_entry_options {
    int fd;               /* listens; the entry's from now on, also where it cannot start */
    unsigned waiting_max; /* connections without a whole head */
    uint64_t request_us;  /* for the head, and then for room */
    enum http_entry_verdict (*take)(void *context, const struct http_entry_guest *guest);
    void *context;
};

struct http_entry;
enum pen_status http_entry_start(const struct http_entry_options *options, struct http_entry **ret_entry,
                                 struct pen_error *reterr);
void http_entry_stop(struct http_entry *entry); /* ends its thread and what waits; NULL is fine */

#endif
