/*
 * story_text.h - protobuf messages as text, both ways, by their descriptors: { name: "a" version: 1 inputs { name: "x" dims: 1 dims: 4 } }. A value that is a
 * default is not written. Bytes are COUNTxHH, a byte so many times. Threads: any.
 */
#ifndef TEST_STORY_TEXT_H
#define TEST_STORY_TEXT_H

#include <stdio.h>

#include <protobuf-c/protobuf-c.h>

/* Reads `{ ... }` at *text, which moves behind it. Ends the program with a sentence when it is no such message. Free with protobuf_c_message_free_unpacked. */
ProtobufCMessage *story_parse(const ProtobufCMessageDescriptor *type, const char **text);

/* Writes the fields, each with a space before it. What differs from run to run (build, clock of the wall, memory of the process) is written as `?`. */
void story_print(FILE *to, const ProtobufCMessage *message);

#endif
