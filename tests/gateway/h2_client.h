/*
 * h2_client.h - a server of gRPC and a peer of it on the same thread, by nghttp2: what the peer sends is up to the test, frame by frame if need be.
 * The server's time is told to it (grpc_server_look), so that no test waits.
 */
#ifndef H2_CLIENT_H
#define H2_CLIENT_H

#include <nghttp2/nghttp2.h>

#include "grpc_server.h"

#define ANSWER_BYTES 4096

struct peer_call {
    int32_t id;
    bool ended;     /* with trailers */
    uint32_t reset; /* the error code of a reset, or ... */
    bool was_reset;
    char status[8], grpc_status[8], grpc_message[512], encoding[16];
    unsigned char
        got[ANSWER_BYTES]; /* the messages as they came, with their prefixes; what is beyond is counted alone */
    size_t got_bytes;
    struct bytes given; /* what is still to be sent, */
    size_t given_at;
    bool ends; /* and whether the stream ends behind it */
};

struct peer {
    int fd;
    nghttp2_session *session;
    bool closed;     /* by the server */
    uint32_t goaway; /* its error code, and its words */
    bool went_away;
    char why[256];
};

struct grpc_server *serve(bool (*streams)(void *, const char *), void (*on_request)(void *, struct grpc_request *),
                          struct grpc_server_options options);
/* window: of a stream, that the server may send ahead. */
void peer_open(struct peer *peer, uint32_t window);
void peer_close(struct peer *peer);
/* Begins a call; more: name and value in turns, NULL at the end; or NULL. */
void peer_call(struct peer *peer, struct peer_call *call, const char *path, const char *const *more);
/* One message of the call; last: the peer has no more. */
void peer_say(struct peer *peer, struct peer_call *call, const void *message, size_t bytes, bool packed, bool last);
void peer_say_raw(struct peer *peer, const void *bytes, size_t count);
/* Lets both go on until nothing moves. */
void settle(struct peer *peer);

#endif
