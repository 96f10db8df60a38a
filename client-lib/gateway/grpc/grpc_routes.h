/*
 * grpc_routes.h - from a message of gRPC to its call: which method, who asks, and on which thread it is answered.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_ROUTES_H
#define GRPC_ROUTES_H

#include <stdbool.h>

struct grpc_request;

/* A grpc_server_options.on_request and .streams; context: the gateway. */
void grpc_routes_take(void *gateway, struct grpc_request *request);
bool grpc_routes_stream(void *gateway, const char *path);

#endif
