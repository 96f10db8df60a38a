/*
 * grpc_calls.h - a call of gRPC on its way: how its answers are counted and sent, its message unpacked, and the calls that are answered with a short message.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_CALLS_H
#define GRPC_CALLS_H

#include <protobuf-c/protobuf-c.h>

#include "calls.h"
#include "grpc_bodies.h"

/* How the JSON of an answer becomes a message. */
enum grpc_form {
    FORM_EMPTY,
    FORM_FLAG,    /* of field 1: is it so? What is not found or not ready is not */
    FORM_MESSAGE, /* its members are the fields */
    FORM_INNER,   /* its members are those of field 1 */
    FORM_ROWS,    /* an array, the elements of field 1 */
    FORM_NAMED,   /* an array, a map by names in field 1 */
    FORM_SETTINGS /* its members are a map */
};

struct grpc_method {
    const char *path, *kind;
    call_answer *answer;
    call_answer *look; /* instead of it, where the request has no settings; NULL = none */
    enum call_place place;
    bool open;                               /* to those without a token, and on spare connections */
    const ProtobufCMessageDescriptor *takes; /* of the request */
    const char *model, *region;              /* fields of it that name them; NULL = none */
    grpc_body *body;                         /* NULL: the call needs none */
    enum grpc_form form;
    const ProtobufCMessageDescriptor *gives;
    const char *field; /* field 1's name, for ROWS and NAMED */
};

struct grpc_who {
    struct gateway *gateway;
    struct grpc_request *request;
    struct gateway_session *session;
    bool may_set;
    unsigned kind;
};

void grpc_call_begin(const struct grpc_who *who, const struct grpc_method *method);

/* Count the answer, and send it. */
void grpc_reply(struct gateway *gateway, unsigned kind, struct grpc_request *request, struct grpc_answer *answer,
                enum grpc_then then);
void grpc_refuse(struct gateway *gateway, unsigned kind, struct grpc_request *request, enum grpc_code code,
                 const char *text);

#define GRPC_SHORT_BYTES (1u << 20) /* of a short call's message that came packed */

/* Those bytes as a message in memory of `hold`, which frees it. NULL: INVALID or NO_MEMORY with a sentence. */
const ProtobufCMessage *grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *data, size_t bytes,
                                    struct hold *hold, struct pen_error *reterr);
/* What came packed as it was before, in `hold`: at most bytes_max. INTERNAL, TOO_LARGE or NO_MEMORY with a sentence. */
enum pen_status grpc_inflate(enum content_coding packed, const char **data, size_t *bytes, size_t bytes_max,
                             struct hold *hold, struct pen_error *reterr);
/* Both, for the message of a short call. */
const ProtobufCMessage *grpc_short_message(const ProtobufCMessageDescriptor *descriptor,
                                           const struct grpc_request *request, struct hold *hold,
                                           struct pen_error *reterr);

#endif
