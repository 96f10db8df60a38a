/*
 * grpc_server.h - a server of gRPC: HTTP/2 by nghttp2, messages with their lengths, status in trailers; many connections on one thread.
 *
 * A call is a stream of HTTP/2. Its handler is given one request for each message of the peer. A call that takes one message is given when its peer has ended;
 * one that streams is given its messages as they come, the next one when the handler has asked for it (grpc_next) or has answered the one before. Answers go
 * out in the order of the messages. What is given and not yet sent is limited, and what comes meanwhile is held back by flow control. If the peer gives a call
 * up, `gone` of each of its requests is called, and they are no more.
 * Slow peers, floods and what is beyond a limit cost a bounded time and place, as in http_server.h; those of one address are counted for themselves.
 * Threads: owner - the thread that calls grpc_server_ready.
 */
#ifndef GRPC_SERVER_H
#define GRPC_SERVER_H

#include <sys/uio.h>

#include "bytes.h"
#include "content_coding.h"
#include "grpc_wire.h"

struct grpc_server;

#define GRPC_TRACE_BYTES 64 /* of a traceparent, with its end */

/* Texts are the call's; "" = none. */
struct grpc_request {
    const char *path;               /* "/package.Service/Method" */
    const char *authorization;      /* the header as it came */
    const char *traceparent;        /* less than GRPC_TRACE_BYTES */
    uint64_t began_us, deadline_us; /* deadline_us: when grpc-timeout is over; 0 = none */
    struct hold *hold;              /* of the message, the request's; who takes it sets NULL */
    char *message;                  /* [message_bytes]; NULL with 0 bytes is an empty message */
    size_t message_bytes;
    enum content_coding packed,
        wanted; /* of the message as it lies there; of answers, where the peer wants them packed */
    bool ended; /* there is no message: the peer of a streaming call has no more */
    bool local, spare;
    void *waiter; /* with gone: of who answers later */
    void (*gone)(void *waiter);
};

struct grpc_answer {
    struct bytes text;         /* given: the first part of the message */
    const struct iovec *parts; /* [parts_count], behind it; copied, their bytes are lent until release */
    size_t parts_count;
    bool packed;                /* in the coding that the request wanted */
    void (*release)(void *arg); /* once, when the answer is out or its peer gone; NULL = none */
    void *release_arg;
};

struct grpc_server_options {
    int fd; /* listens, non-blocking; the server's from now on */
    unsigned connections_max, address_max, streams_max;
    size_t head_max, message_max;
    uint64_t idle_us;                                 /* without a call */
    bool (*streams)(void *context, const char *path); /* may that call send several messages? */
    void (*on_request)(void *context, struct grpc_request *request);
    void *context;
};

struct grpc_counts {
    uint64_t connections, accepted, turned_away; /* now; ever; beyond a limit */
    uint64_t late, bad; /* peers and calls that were too slow; connections that were no HTTP/2, or flooded */
    uint64_t bytes_in, bytes_out;
};

enum pen_status grpc_server_new(const struct grpc_server_options *options, struct grpc_server **ret_server);
void grpc_server_free(struct grpc_server *server); /* closes all connections; NULL is fine */
int grpc_server_fd(const struct grpc_server *server);
void grpc_server_ready(void *server);                               /* when that descriptor can be read */
void grpc_server_look(struct grpc_server *server, uint64_t now_us); /* now and then: who is late? */

enum grpc_then {
    GRPC_LAST, /* status OK behind it; the request is no more */
    GRPC_NEXT, /* the request is answered, and no more */
    GRPC_MORE  /* more answers to the same request follow */
};

/* One message. Takes answer->text. */
void grpc_send(struct grpc_request *request, struct grpc_answer *answer, enum grpc_then then);
/* The next message of the call may come while this one is not answered yet. Does nothing for calls that take one message. */
void grpc_next(struct grpc_request *request);
/* Ends the call behind the answers to earlier messages; the request is no more. text: a sentence, "" for OK. */
void grpc_end(struct grpc_request *request, enum grpc_code code, const char *text);

/* No new connections and no further calls on the old ones; those under way are answered. */
void grpc_server_drain(struct grpc_server *server);
unsigned grpc_server_under_way(const struct grpc_server *server); /* calls */
struct grpc_counts grpc_server_counts(const struct grpc_server *server);

#endif
