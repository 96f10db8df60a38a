/*
 * grpc_reflection.h - the standard reflection service (v1 and v1alpha, whose messages are the same): what services there are, and the descriptors of their
 * messages, as protoc made them from the .proto files of this folder.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_REFLECTION_H
#define GRPC_REFLECTION_H

#include "grpc_calls.h"

extern const unsigned char descriptor_set[];
extern const size_t descriptor_set_bytes;

/* One message of the stream, or its end. */
void grpc_reflection_next(const struct grpc_who *who);
/* "inference.GRPCInferenceService" and the others. */
bool grpc_service_is_known(const char *name);

#endif
