/*
 * ask.h - a question to the broker (CONTROL) and its answer.
 *
 * Threads: under the client's lock, except where it says any.
 */
#ifndef ASK_H
#define ASK_H

#include "control.pb-c.h"
#include "core.h"

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

/* Asks and waits. On PEN_OK the reply lives in ask->arena until ask_fini(), which is due in every case. Threads: any. */
enum pen_status ask_run(struct pen_client *client, struct ask *ask, const char *verb, const char *argument,
                        int64_t timeout_us, struct pen_error *reterr);
void ask_fini(struct ask *ask);
/* An order: of the answer only its status and its sentence count. Threads: any. */
enum pen_status ask_command(struct pen_client *client, const char *verb, const char *argument, int64_t timeout_us,
                            struct pen_error *reterr);
enum pen_status ask_no_memory(struct pen_error *reterr); /* for what was answered */
/* The reply changes hands with its arena: it lives until meta_arena_fini(to). */
void ask_arena_take(struct ask *ask, struct meta_arena *to);

/* Under the lock, with the socket: */
void asks_send(struct pen_client *client);
void asks_rewind(struct pen_client *client);
void asks_answer(struct pen_client *client, const struct incoming *in);
void asks_fail(struct pen_client *client, enum pen_status status, const char *text);

#endif
