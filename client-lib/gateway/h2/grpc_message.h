/*
 * grpc_message.h - messages of gRPC with their lengths before them: written, and taken from a stream piece by piece.
 * Threads: one-at-a-time.
 */
#ifndef GRPC_MESSAGE_H
#define GRPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold.h"

#define GRPC_PREFIX_BYTES 5 /* a flag (1: compressed), and the length, big end first */

void grpc_prefix_write(uint64_t bytes, bool packed, unsigned char prefix[GRPC_PREFIX_BYTES]);

enum grpc_take {
    GRPC_TAKE_MORE, /* all bytes are taken, the message is not there yet */
    GRPC_TAKE_DONE, /* message[0..bytes) is there; what is behind it was not taken */
    GRPC_TAKE_LARGE,
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
    bool packed; /* compressed */
};

/* *ret_taken: of count. */
enum grpc_take grpc_message_take(struct grpc_message *message, const uint8_t *data, size_t count, size_t bytes_max,
                                 size_t *ret_taken);
bool grpc_message_begun(const struct grpc_message *message);
void grpc_message_fini(struct grpc_message *message); /* empty again */

#endif
