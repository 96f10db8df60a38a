#include "questions.h"

#include "assertion.h"
#include "core.h"
#include "meta_fields.h"
#include "wire_reader.h"

void asks_add(struct pen_client *c, struct ask *ask)
{
    PEN_ASSERT(c->session.state != SESSION_REFUSED && !ask->done, "a question waits where it may be answered");
    ask->next = c->asks;
    c->asks = ask;
}

void asks_remove(struct pen_client *c, struct ask *ask)
{
    struct ask **at = &c->asks;
    while (*at && *at != ask) {
        at = &(*at)->next;
    }
    PEN_ASSERT(*at == ask, "a question is asked until its asker has had enough");
    *at = ask->next;
}

void asks_send(struct pen_client *c)
{
    PEN_ASSERT(c->session.state == SESSION_READY, "questions are sent to a broker that has welcomed us");
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
    PEN_ASSERT(!ask->done, "a question is answered once");
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
    while (meta_next(&reader, &field)) {
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
    meta_arena_init(&arena, QUESTION_ARENA_BYTES);
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
    PEN_ASSERT(!ask->reply, "a question has one reply");
    ask->arena = arena;
    ask->reply = reply;
    settle(ask, reply_status(in, reply), *reply->error ? reply->error : pen_status_name(reply_status(in, reply)));
}
