/*
 * grpc_wire.h - the texts and bytes of gRPC over HTTP/2 (its PROTOCOL-HTTP2 document): codes, time-outs, messages with their lengths before them.
 * Threads: any.
 */
#ifndef GRPC_WIRE_H
#define GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold.h"
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

/* ---- messages ---- */

#define GRPC_PREFIX_BYTES 5 /* a flag (1: compressed), and the length, big end first */

void grpc_prefix_write(uint64_t bytes, unsigned char prefix[GRPC_PREFIX_BYTES]);

enum grpc_take {
    GRPC_TAKE_MORE, /* all bytes are taken, the message is not there yet */
    GRPC_TAKE_DONE, /* message[0..bytes) is there; what is behind it was not taken */
    GRPC_TAKE_LARGE,
    GRPC_TAKE_PACKED, /* the message is compressed */
    GRPC_TAKE_MALFORMED,
    GRPC_TAKE_NO_MEMORY
};

/* A message on its way in. Its memory grows with what has come: a length that is only announced costs nothing. */
struct grpc_message {
    unsigned char prefix[GRPC_PREFIX_BYTES];
    size_t prefix_used;
    struct hold *hold; /* NULL: no bytes yet */
    char *data;
    size_t bytes, used, room;
};

/* *ret_taken: of count. */
enum grpc_take grpc_message_take(struct grpc_message *message, const uint8_t *data, size_t count, size_t bytes_max,
                                 size_t *ret_taken);
bool grpc_message_begun(const struct grpc_message *message);
void grpc_message_fini(struct grpc_message *message); /* empty again */

#endif
