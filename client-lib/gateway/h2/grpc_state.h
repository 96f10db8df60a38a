/*
 * grpc_state.h - the records of the server of gRPC: what all connections share, a connection with its session of nghttp2, a call (one stream of HTTP/2), the
 * turns of its handler, and the answers on their way out.
 *
 * A turn is one request that the handler has, or has answered: they stand in a row, and what the first of them has to say is sent. A call is over when its
 * peer or its handler has ended it; what stands in the row is still sent, then the trailers.
 * Threads: owner - the server's.
 */
#ifndef GRPC_STATE_H
#define GRPC_STATE_H

#include <nghttp2/nghttp2.h>

#include "door.h"
#include "grpc_message.h"
#include "grpc_server.h"

#define GRPC_PATH_BYTES  128
#define GRPC_TOKEN_BYTES 512
#define GRPC_TEXT_BYTES  1536 /* of grpc-message */
#define GRPC_TURNS_MAX   8u   /* of one call */
#define GRPC_PIECES_MAX  16u  /* of a message that go into one frame */

struct grpc_connection;

struct grpc_shared {
    struct grpc_server_options options;
    struct grpc_counts counts;
    unsigned under_way;
    bool draining;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    uint8_t *in; /* what is read goes through here */
    void (*ended)(struct grpc_shared *shared,
                  struct grpc_connection *connection); /* closed: forget it, free it later */
    void (*blocked)(struct grpc_shared *shared, struct grpc_connection *connection,
                    bool yes); /* wait for room to send */
};

struct grpc_connection {
    struct guest guest; /* the first member; since_us: the last sign of life, or of room for our bytes */
    struct grpc_shared *shared;
    nghttp2_session *session;
    struct grpc_stream *streams, *ready;
    unsigned streams_count, pings;
    uint64_t pinged_us;
    char *out; /* [GRPC_OUT_BYTES], while there is something to send */
    size_t out_used;
    size_t heard;                  /* bytes, at first */
    bool closed, running, greeted; /* greeted: its first frame has come */
    bool waits_out, full;          /* for room in the socket; it took less than there was */
    bool blamed;                   /* the peer was told that its frames are wrong */
};

/* A message on its way out. */
struct grpc_out {
    struct grpc_out *next;
    struct bytes text;
    size_t parts_count, at, used; /* from byte `used` of parts[at] on it is still to be sent */
    uint64_t left;
    void (*release)(void *arg);
    void *release_arg;
    unsigned char prefix[GRPC_PREFIX_BYTES];
    struct iovec parts[]; /* [parts_count]: prefix, text, the others */
};

struct grpc_turn {
    struct grpc_request request; /* the first member */
    struct grpc_stream *stream;
    struct grpc_turn *next;
    struct grpc_out *outs, **outs_end;
    bool given, next_too; /* its handler has it; it has asked for the next one */
    bool ends;            /* the call ends behind it, with code and why */
    enum grpc_code code;
    char *why; /* NULL = "" */
};

struct grpc_stream {
    struct grpc_connection *connection;
    struct grpc_stream *previous, *next, *next_ready;
    int32_t id;
    /* what its headers said */
    bool opened, post, typed, too_large, odd_timeout, streams; /* streams: may send several messages */
    enum content_coding coding, accepted;
    uint64_t deadline_us;
    char path[GRPC_PATH_BYTES], authorization[GRPC_TOKEN_BYTES], traceparent[GRPC_TRACE_BYTES];
    /* what comes */
    bool peer_ended, complete, over, in_ready; /* over: no turn follows those that are there */
    struct grpc_message in;
    struct hold *ahead; /* what came while no turn was free */
    char *ahead_data;
    size_t ahead_at, ahead_used, ahead_room;
    uint64_t began_us, asked_us, received; /* asked_us: since when it has been the peer's turn to send */
    /* what goes */
    struct grpc_turn *turns, *last_turn;
    unsigned turns_count;
    uint64_t said_us, sent;        /* since when the first answer, or the end, is on its way */
    bool begun, deferred, closing; /* headers are sent; nghttp2 waits for a message; the end is on its way */
    bool reset;
    bool announced;      /* of the first answer: nghttp2 has been promised a frame */
    const char *refusal; /* the body of a refusal in HTTP */
    enum grpc_code code;
    char why[GRPC_TEXT_BYTES];
};

#endif
