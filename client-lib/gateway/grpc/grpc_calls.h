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
                bool last);
void grpc_refuse(struct gateway *gateway, unsigned kind, struct grpc_request *request, enum grpc_code code,
                 const char *text);

/* The request's message in memory of `hold`, which frees it. NULL: malformed, or no memory. */
ProtobufCMessage *grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *data, size_t bytes,
                              struct hold *hold);

#endif
