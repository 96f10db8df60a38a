#include "questions.h"

#include "assertion.h"
#include "core.h"

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

static bool varint_read(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    *ret_value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        *ret_value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* ControlReply.serial out of its packed form, for a reply that there is no memory to unpack; 0: not found. */
static uint64_t serial_read(const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + bytes;
    uint64_t tag, value;
    while (at < end && varint_read(&at, end, &tag)) {
        uint64_t skip = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : 0;
        if ((tag & 7) == 0 || (tag & 7) == 2) {
            if (!varint_read(&at, end, &value)) {
                return 0;
            }
            if (tag == (1 << 3 | 0)) {
                return value;
            }
            skip = (tag & 7) == 2 ? value : 0;
        } else if (skip == 0) {
            return 0;
        }
        if (skip > (uint64_t)(end - at)) {
            return 0;
        }
        at += skip;
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
