/*
 * vector_text.h - what the library reads in the frames of a message, as text; and the frames that it writes from what it read.
 *
 * Threads: one-at-a-time.
 */
#ifndef VECTOR_TEXT_H
#define VECTOR_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include <protobuf-c/protobuf-c.h>

#include "vector_file.h"

/* The meta of a message type; NULL for types without one. */
const ProtobufCMessageDescriptor *meta_of_type(uint8_t type);

/* Decodes all groups and prints them, up to the first error. */
void frames_print(const struct vector *vector, FILE *out);

/* Decodes, encodes and compares; 0 when every frame is equal, else -1 with a line on stderr. */
int frames_reencode(const struct vector *vector);

#endif
