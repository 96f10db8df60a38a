/*
 * grpc_connection.h - one connection of the server: bytes between its socket and its session of nghttp2.
 * Threads: owner - the server's.
 */
#ifndef GRPC_CONNECTION_H
#define GRPC_CONNECTION_H

#include "grpc_state.h"

/* Fills shared->callbacks, ->option and ->in; false without memory. */
bool grpc_shared_init(struct grpc_shared *shared);
void grpc_shared_fini(struct grpc_shared *shared);
bool grpc_connection_open(struct grpc_connection *connection); /* the session begins */
void grpc_connection_read(struct grpc_connection *connection);
/* Delivers what is ready and sends what there is; does nothing while a function of this connection runs. */
void grpc_connection_run(struct grpc_connection *connection);
void grpc_connection_look(struct grpc_connection *connection, uint64_t now_us);
void grpc_connection_drain(struct grpc_connection *connection);
void grpc_connection_close(struct grpc_connection *connection);

#endif
