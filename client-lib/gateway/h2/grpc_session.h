/*
 * grpc_session.h - what nghttp2 tells of a connection's frames, and what it sends.
 * Threads: owner - the server's.
 */
#ifndef GRPC_SESSION_H
#define GRPC_SESSION_H

#include "grpc_state.h"

#define GRPC_FRAME_BYTES (256u * 1024u) /* of one frame of data, in both directions */
#define GRPC_OUT_BYTES                                                                                                 \
    (64u * 1024u + GRPC_FRAME_BYTES) /* of connection->out: small frames, and what is left of a large one */

/* All functions that nghttp2 calls, and its options. False without memory. */
bool grpc_session_rules(struct grpc_shared *shared);
bool grpc_session_begin(struct grpc_connection *connection); /* its session, and our settings */
/* More bytes into connection->out; large frames go to the socket by themselves. False: no memory, or the socket is at its end. */
bool grpc_session_fill(struct grpc_connection *connection);
/* What is in connection->out goes, or as much as the socket takes. False: it is at its end. */
bool grpc_session_flush(struct grpc_connection *connection);

#endif
