#include "acks.h"

#include "assertion.h"
#include "deadline.h"
#include "outgoing.h"

#define ACKNOWLEDGE_US    50000u /* the contract allows 100 ms */
#define ACKNOWLEDGE_COUNT 64u
#define ACKNOWLEDGE_BYTES (1024u * 1024u)

void acks_count(struct pen_client *c, const struct pen_result *result, uint64_t now_us)
{
    struct session *s = &c->session;
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        s->unacknowledged_bytes += pen_result_output(result, i)->bytes;
    }
    s->unacknowledged++;
    s->acknowledge_us = now_us + ACKNOWLEDGE_US < s->acknowledge_us ? now_us + ACKNOWLEDGE_US : s->acknowledge_us;
    PEN_ASSERT(s->acknowledge_us != DEADLINE_NONE, "what is not acknowledged has a time when it is");
}

bool acks_many(const struct session *s)
{
    PEN_ASSERT(!s->unacknowledged || s->acknowledge_us != DEADLINE_NONE,
               "what is not acknowledged has a time when it is");
    return s->unacknowledged >= ACKNOWLEDGE_COUNT || s->unacknowledged_bytes >= ACKNOWLEDGE_BYTES;
}

void acks_send(struct pen_client *c, uint64_t now_us)
{
    struct session *s = &c->session;
    struct envelope env = outgoing_envelope(c, FRAME_ACK);
    env.job.sequence = pending_answered(&c->pending);
    s->unacknowledged = 0;
    s->unacknowledged_bytes = 0;
    s->acknowledge_us = DEADLINE_NONE;
    if (env.job.sequence && !outgoing_plain(c, env, now_us)) {
        s->acknowledge_us = now_us + ACKNOWLEDGE_US;
    }
}
