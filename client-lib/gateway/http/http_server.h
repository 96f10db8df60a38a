/*
 * http_server.h - a server of HTTP/1.1 for many connections on one thread: epoll, bodies received where they stay, answers sent from where they lie.
 *
 * A request is given when its head and body are there. It is answered at once or later, by http_answer; if its peer hangs up before that, `gone` is called
 * and the request is no more. Slow peers, and those beyond a limit, cost a bounded time and a small place: who comes when all places are taken still gets
 * one of a few spare ones (request->spare), enough to ask for health.
 * Threads: owner - the thread that calls http_server_turn.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "bytes.h"
#include "hold.h"
#include "http_head.h"
#include "penstock/status.h"

struct http_server;

struct http_request {
    struct http_head head;
    struct hold *hold; /* of the body, the request's; who takes it sets NULL */
    char *body;        /* [body_bytes] */
    size_t body_bytes;
    bool local; /* the peer is on this host */
    bool spare; /* all places are taken: the connection ends with the answer */
    uint64_t began_us;
    void *waiter; /* with gone: of who answers later */
    void (*gone)(void *waiter);
    void *connection; /* the server's */
};

struct http_answer {
    unsigned status;
    const char *type;          /* of the content; NULL = none */
    const char *headers;       /* more lines, each with its end; NULL = none */
    struct bytes text;         /* given: the first part of the content */
    const struct iovec *parts; /* [parts_count], behind it; copied, their bytes are lent until release */
    size_t parts_count;
    void (*release)(void *arg); /* once, when the answer is out or its peer gone; NULL = none */
    void *release_arg;
    bool close; /* the connection ends with the answer */
};

struct http_server_options {
    int fd; /* listens, non-blocking; the server's from now on */
    unsigned connections_max, address_max;
    size_t head_max, body_max;
    uint64_t head_us, idle_us; /* for a head; between two requests */
    void (*on_request)(void *context, struct http_request *request);
    void *context;
};

struct http_counts {
    uint64_t connections, accepted, turned_away; /* now; ever; beyond a limit */
    uint64_t late, bad;                          /* peers that were too slow; requests that were no HTTP */
    uint64_t bytes_in, bytes_out;
};

enum pen_status http_server_new(const struct http_server_options *options, struct http_server **ret_server);
void http_server_free(struct http_server *server); /* closes all connections; NULL is fine */

/* `ready` is called at a turn when fd can be read. False: no memory or descriptor. */
bool http_server_watch(struct http_server *server, int fd, void (*ready)(void *arg), void *arg);

/* Waits at most timeout_ms and does what there is to do. */
void http_server_turn(struct http_server *server, int timeout_ms);

/* Exactly once per request; takes answer->text. */
void http_answer(struct http_request *request, struct http_answer *answer);
/* {"error": text} with that status. headers: as in http_answer. */
void http_answer_error(struct http_request *request, unsigned status, const char *headers, const char *text);

/* No new connections and no further requests on the old ones; those under way are answered. */
void http_server_drain(struct http_server *server);
unsigned http_server_under_way(const struct http_server *server); /* requests */
struct http_counts http_server_counts(const struct http_server *server);

#endif
