/*
 * grpc_bodies.h - requests of short calls as the JSON that the calls of oip/ read.
 * Threads: any.
 */
#ifndef GRPC_BODIES_H
#define GRPC_BODIES_H

#include <protobuf-c/protobuf-c.h>

#include "bytes.h"

typedef void grpc_body(const ProtobufCMessage *message, struct bytes *to);

grpc_body body_index, body_load, body_unload, body_region, body_trace, body_log; /* of no settings: nothing */

#endif
