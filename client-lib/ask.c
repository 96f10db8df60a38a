#include "ask.h"

#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "drive.h"
#include "meta_fields.h"
#include "wire_reader.h"

#define REPLY_ARENA_BYTES (64u * 1024u * 1024u) /* unpacked form of at most 4 MiB: small messages grow most */

static enum pen_status pack(struct ask *ask, const char *verb, const char *argument)
{
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    request.verb = (char *)(uintptr_t)verb;
    request.argument = (char *)(uintptr_t)(argument ? argument : "");
    request.serial = ask->serial;
    ask->packed_bytes = penstock__control_request__get_packed_size(&request);
    ask->packed = malloc(ask->packed_bytes);
    if (!ask->packed) {
        return pen_error_set(&ask->error, PEN_ERR_NO_MEMORY, "no memory for the question.");
    }
    penstock__control_request__pack(&request, ask->packed);
    return PEN_OK;
}

static void unlink_ask(struct pen_client *c, struct ask *ask)
{
    for (struct ask **at = &c->asks; *at; at = &(*at)->next) {
        if (*at == ask) {
            *at = ask->next;
            return;
        }
    }
}

enum pen_status ask_run(struct pen_client *c, struct ask *ask, const char *verb, const char *argument,
                        int64_t timeout_us, struct pen_error *reterr)
{
    uint64_t limit_us = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    memset(ask, 0, sizeof *ask);
    meta_arena_init(&ask->arena, REPLY_ARENA_BYTES);
    if (argument && strlen(argument) > 4096) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the argument of \"%s\" is longer than 4096 bytes.", verb);
    }
    pthread_mutex_lock(&c->lock);
    ask->serial = ++c->asks_serial;
    enum pen_status status = pack(ask, verb, argument);
    if (status == PEN_OK && c->session.state == SESSION_REFUSED) {
        ask->error = c->session.refusal;
        status = ask->error.status;
    } else if (status == PEN_OK) {
        ask->next = c->asks;
        c->asks = ask;
        drive_kick(c);
        drive_until(c, &ask->done, limit_us);
        unlink_ask(c, ask);
        status = ask->done ? ask->status : PEN_ERR_UNAVAILABLE;
    }
    pthread_mutex_unlock(&c->lock);
    if (status == PEN_ERR_UNAVAILABLE && !ask->done) {
        return pen_error_set(reterr, status,
                             "no answer to \"%s\" from a broker at %s in time; is penstock-broker running there?", verb,
                             c->endpoint);
    }
    return status == PEN_OK ? status : pen_error_set(reterr, status, "%s", ask->error.text);
}

void ask_fini(struct ask *ask)
{
    meta_arena_fini(&ask->arena);
    free(ask->packed);
    ask->packed = NULL;
    ask->reply = NULL;
}

enum pen_status ask_command(struct pen_client *c, const char *verb, const char *argument, int64_t timeout_us,
                            struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(c, &ask, verb, argument, timeout_us, reterr);
    ask_fini(&ask);
    return status;
}

enum pen_status ask_no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the broker's answer.");
}

/* The arena is never allocated from again, so its new place does not matter. */
void ask_arena_take(struct ask *ask, struct meta_arena *to)
{
    *to = ask->arena;
    meta_arena_init(&ask->arena, 0);
}

void asks_send(struct pen_client *c)
{
    for (struct ask *ask = c->asks; ask; ask = ask->next) {
        if (!ask->sent && !ask->done) {
            struct envelope env = envelope_make(FRAME_CONTROL);
            env.job.client = c->session.uuid;
            ask->sent = link_send(&c->link, env, ask->packed, ask->packed_bytes) == 0;
        }
    }
}

void asks_rewind(struct pen_client *c)
{
    for (struct ask *ask = c->asks; ask; ask = ask->next) {
        ask->sent = false;
    }
}

static void settle(struct ask *ask, enum pen_status status, const char *text)
{
    ask->status = status;
    if (status != PEN_OK) {
        pen_error_set(&ask->error, status, "%s", text);
    }
    ask->done = true;
}

void asks_fail(struct pen_client *c, enum pen_status status, const char *text)
{
    for (struct ask *ask = c->asks; ask; ask = ask->next) {
        if (!ask->done) {
            settle(ask, status, text);
        }
    }
}

static enum pen_status reply_status(const struct incoming *in, const Penstock__ControlReply *reply)
{
    if (in->env.status != PEN_OK) {
        return (enum pen_status)in->env.status;
    }
    return *reply->error ? PEN_ERR_INVALID : PEN_OK;
}

/* ControlReply.serial out of its packed form, for a reply that there is no memory to unpack; 0: not found. */
static uint64_t serial_read(const uint8_t *at, size_t bytes)
{
    struct wire_reader reader = {at, at + bytes};
    struct wire_field field;
    while (wire_next(&reader, &field)) {
        if (field.number == CONTROL_REPLY_SERIAL && !field.data) {
            return field.value;
        }
    }
    return 0;
}

/* Whoever asked must not wait for what has come. */
static void answer_without_memory(struct pen_client *c, const struct incoming *in)
{
    uint64_t serial = serial_read(in->meta, in->env.meta_bytes);
    for (struct ask *ask = c->asks; ask; ask = ask->next) {
        if (!ask->done && ask->serial == serial) {
            settle(ask, PEN_ERR_NO_MEMORY, "no memory for the broker's answer.");
        }
    }
}

/* The serial is in the meta, so the reply is unpacked before we know whose it is; its arena then goes to the asker. */
void asks_answer(struct pen_client *c, const struct incoming *in)
{
    struct meta_arena arena;
    struct ask *ask = c->asks;
    if (!ask) {
        return;
    }
    meta_arena_init(&arena, REPLY_ARENA_BYTES);
    Penstock__ControlReply *reply =
        meta_unpack(&arena, &penstock__control_reply__descriptor, in->meta, in->env.meta_bytes);
    while (reply && ask && (ask->done || ask->serial != reply->serial)) {
        ask = ask->next;
    }
    if (!reply || !ask) {
        c->counters.messages_bad += !reply && !arena.starved;
        if (!reply && arena.starved) {
            answer_without_memory(c, in);
        }
        meta_arena_fini(&arena);
        return;
    }
    ask->arena = arena;
    ask->reply = reply;
    settle(ask, reply_status(in, reply), *reply->error ? reply->error : pen_status_name(reply_status(in, reply)));
}
