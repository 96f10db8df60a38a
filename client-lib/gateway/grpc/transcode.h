/*
 * transcode.h - the answers of short calls, which are written as JSON once, as messages of protobuf: field by field, by the names in the descriptors.
 *
 * So both protocols say the same. What the message has no field for is passed over.
 * Threads: any.
 */
#ifndef TRANSCODE_H
#define TRANSCODE_H

#include <protobuf-c/protobuf-c.h>

#include "json_read.h"

/* Wire format (protobuf's encoding document): a field with its number. */
void wire_varint(struct bytes *to, uint64_t value);
void wire_number(struct bytes *to, uint32_t field, uint64_t value);
void wire_head(struct bytes *to, uint32_t field, uint64_t bytes); /* of what has that many bytes */
void wire_bytes(struct bytes *to, uint32_t field, const void *data, size_t bytes);
void wire_text(struct bytes *to, uint32_t field, const char *text);

/* At an object: its members as fields of that message. False: json->why. */
bool transcode_object(struct json *json, const ProtobufCMessageDescriptor *descriptor, struct bytes *to);
/* At an array: each object as an element of that field. */
bool transcode_list(struct json *json, const ProtobufCMessageDescriptor *descriptor, const char *field,
                    struct bytes *to);
/* At an array of objects with a "name": a map from it to them. */
bool transcode_named(struct json *json, const ProtobufCMessageDescriptor *descriptor, const char *field,
                     struct bytes *to);
/* At an object: a map from its members' names to messages: the fields `value`, or bool_param, uint32_param and string_param. */
bool transcode_settings(struct json *json, const ProtobufCMessageDescriptor *descriptor, struct bytes *to);

/* A text field of a message by its name; "" if it has none. */
const char *message_text(const ProtobufCMessage *message, const char *field);

#endif
