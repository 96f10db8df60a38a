/*
 * questions.h - questions to the broker (CONTROL) that await their answers. calls/ask.h asks one.
 *
 * All calls need the client's lock and the socket (core.h). Threads: owner.
 */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "control.pb-c.h"
#include "core.h"
#include "tensor_codec.h"

#define QUESTION_ARENA_BYTES (64u * 1024u * 1024u) /* unpacked form of at most 4 MiB: small messages grow most */

struct ask {
    struct ask *next;
    uint64_t serial;
    bool sent; /* on this connection */
    bool done;
    enum pen_status status;
    struct pen_error error;
    size_t packed_bytes;
    uint8_t *packed;
    struct meta_arena arena;
    Penstock__ControlReply *reply; /* in the arena */
};

/* Puts a question among those that await an answer, and takes it out, answered or not. */
void asks_add(struct pen_client *client, struct ask *ask);
void asks_remove(struct pen_client *client, struct ask *ask);

void asks_send(struct pen_client *client);   /* those that this connection has not carried */
void asks_rewind(struct pen_client *client); /* the connection is lost: all are to be sent again */
/* A CONTROL_REPLY. */
void asks_answer(struct pen_client *client, const struct incoming *in);
/* None of them gets an answer. */
void asks_fail(struct pen_client *client, enum pen_status status, const char *text);

#endif
