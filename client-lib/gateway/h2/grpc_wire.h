/*
 * grpc_wire.h - the words of gRPC over HTTP/2 (its PROTOCOL-HTTP2 document): codes, time-outs, texts.
 * Threads: any.
 */
#ifndef GRPC_WIRE_H
#define GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

enum grpc_code {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
    GRPC_CODES
};

const char *grpc_code_name(enum grpc_code code); /* "INVALID_ARGUMENT" */
enum grpc_code grpc_code_of(enum pen_status status);

/* "250m" and the like: at most 8 digits and one of H M S m u n. In microseconds, rounded up; false: it is none. */
bool grpc_timeout_parse(const char *text, size_t bytes, uint64_t *ret_us);

/* A text as grpc-message carries it: what is not printable ASCII, and %, as %XX. Cut to `room` with its 0, between characters. Returns the bytes. */
size_t grpc_message_encode(const char *text, char *to, size_t room);

#endif
