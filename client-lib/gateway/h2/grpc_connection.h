/*
 * grpc_connection.h - one connection of the server, its session of nghttp2, and its streams: one for each call.
 *
 * A stream: OPEN (headers and message come) -> given (its handler has the request) -> answer on its way -> OPEN again for the next message, or over.
 * Threads: owner - the server's.
 */
#ifndef GRPC_CONNECTION_H
#define GRPC_CONNECTION_H

#include <nghttp2/nghttp2.h>

#include "grpc_server.h"

#define GRPC_STREAM_WINDOW     (512 * 1024) /* what a peer may send ahead on one stream */
#define GRPC_CONNECTION_WINDOW (8 * 1024 * 1024)
#define GRPC_SLOWEST           16384u    /* bytes a second */
#define GRPC_SLOW_US           10000000u /* before that rate counts */
#define GRPC_TEXT_BYTES        1536      /* of grpc-message */

struct grpc_connection;

/* What all connections share. */
struct grpc_shared {
    struct grpc_server_options options;
    struct grpc_counts counts;
    unsigned under_way;
    bool draining;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    void (*ended)(struct grpc_shared *shared,
                  struct grpc_connection *connection); /* closed: forget it, free it later */
    void (*blocked)(struct grpc_shared *shared, struct grpc_connection *connection,
                    bool yes); /* wait for room to send */
};

struct grpc_stream {
    struct grpc_request request; /* the first member */
    struct grpc_connection *connection;
    struct grpc_stream *previous, *next, *next_ready;
    int32_t id;
    bool opened, post, typed, too_large, odd_timeout, odd_coding; /* what its headers said */
    bool streams;                                                 /* may send several messages */
    bool peer_ended, complete, given, over, closing, in_ready;
    struct grpc_message in;
    struct hold *ahead; /* what came while the handler has a message */
    char *ahead_data;
    size_t ahead_at, ahead_used, ahead_room;
    uint64_t since_us, received, sent;
    /* the answer */
    bool begun, busy, deferred; /* headers are sent; a message is on its way; nghttp2 waits for one */
    struct bytes text;
    struct iovec *parts; /* [parts_count], the first of them the text with its prefix */
    size_t parts_count, parts_at, part_used;
    void (*release)(void *arg);
    void *release_arg;
    enum grpc_code code;
    char why[GRPC_TEXT_BYTES];
};

struct grpc_connection {
    struct grpc_shared *shared;
    struct grpc_connection *previous, *next;
    nghttp2_session *session;
    struct grpc_stream *streams, *ready;
    unsigned streams_count, pings;
    uint64_t since_us; /* the last sign of life, or of room for our bytes */
    uint64_t pinged_us;
    uint64_t address;
    char *out; /* [GRPC_OUT_BYTES], while there is something to send */
    size_t out_at, out_used;
    int fd;
    bool closed, running, waits_out, spare, local, greeted;
};

/* ---- streams, grpc_stream.c ---- */

struct grpc_stream *stream_new(struct grpc_connection *connection, int32_t id); /* NULL without memory */
void stream_close(struct grpc_stream *stream);                                  /* its handler is told; frees it */
void stream_header(struct grpc_stream *stream, const char *name, size_t name_bytes, const char *value, size_t bytes);
void stream_opened(struct grpc_stream *stream);
void stream_data(struct grpc_stream *stream, const uint8_t *data, size_t bytes);
void stream_peer_ended(struct grpc_stream *stream);
void stream_deliver(struct grpc_stream *stream); /* if there is something for its handler */
void stream_look(struct grpc_stream *stream, uint64_t now_us);
/* An nghttp2_data_source_read_callback. */
ssize_t stream_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *user);

/* ---- connections, grpc_connection.c ---- */

/* Fills shared->callbacks and ->option; false without memory. */
bool grpc_shared_init(struct grpc_shared *shared);
void grpc_shared_fini(struct grpc_shared *shared);
bool grpc_connection_open(struct grpc_connection *connection); /* the session begins */
void grpc_connection_read(struct grpc_connection *connection);
/* Delivers what is ready and sends what there is; does nothing while a function of this connection runs. */
void grpc_connection_run(struct grpc_connection *connection);
void grpc_connection_ready(struct grpc_stream *stream); /* stream_deliver is called soon */
void grpc_connection_look(struct grpc_connection *connection, uint64_t now_us);
void grpc_connection_drain(struct grpc_connection *connection);
void grpc_connection_close(struct grpc_connection *connection);

#endif
