#include "timers.h"

#include <inttypes.h>
#include <stdio.h>

#include "acks.h"
#include "assertion.h"
#include "connection.h"
#include "deadline.h"
#include "finish.h"
#include "job.h"
#include "outgoing.h"
#include "result.h"
#include "transfer.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The oldest job that no broker has; NULL: none. One that ends takes no new jobs, and still answers others. */
static struct pen_job *stranded(const struct pen_client *c)
{
    struct pen_job *job = c->pending.oldest;
    if (c->session.state == SESSION_HELLO) {
        return job;
    }
    while (job && job != c->pending.unsent && job->state != JOB_HELD) {
        job = job->newer;
    }
    return c->session.held_us ? job : NULL;
}

/* Such a job ends when both it and the loss are old enough. */
static uint64_t give_up_us(const struct pen_client *c)
{
    uint64_t limit = (uint64_t)c->unreachable_us;
    bool without = c->session.state == SESSION_HELLO || c->session.held_us;
    const struct pen_job *job = limit && without ? stranded(c) : NULL;
    uint64_t from = c->session.held_us ? c->session.held_us : c->session.lost_us;
    if (!job) {
        return DEADLINE_NONE;
    }
    return (from > job->submitted_us ? from : job->submitted_us) + limit;
}

static void give_up(struct pen_client *c, uint64_t now_us)
{
    const char *trouble = connection_trouble(c);
    char text[PEN_ERROR_TEXT_BYTES];
    if (c->session.held_us) {
        snprintf(text, sizeof text, "the broker at %s is draining and no other took its place for %.1f s.", c->endpoint,
                 (double)(now_us - c->session.held_us) * 1e-6);
    } else {
        snprintf(text, sizeof text, "no broker at %s for %.1f s%s%s; is penstock-broker running there?", c->endpoint,
                 (double)(now_us - c->session.lost_us) * 1e-6, *trouble ? ": " : "", trouble);
    }
    while (give_up_us(c) <= now_us) {
        struct pen_job *job = stranded(c);
        PEN_ASSERT(job && job_pending(job), "who is given up on awaits an answer");
        finish_job(c, job, result_local(PEN_ERR_UNAVAILABLE, text), now_us);
    }
}

/* Why a job whose time is over was not even sent; "" when it was. */
static const char *unsent_reason(const struct pen_client *c, const struct pen_job *job)
{
    if (job->sends) {
        return "";
    }
    return c->session.state == SESSION_READY ? "; it had not been sent yet" : "; no broker was reached";
}

static void expire(struct pen_client *c, uint64_t now_us)
{
    struct pen_job *job;
    while ((job = pending_expired(&c->pending, now_us)) != NULL) {
        char text[128];
        snprintf(text, sizeof text, "the deadline passed after %" PRIu64 " us without an answer%s.",
                 now_us - job->submitted_us, unsent_reason(c, job));
        finish_job(c, job, result_local(PEN_ERR_DEADLINE, text), now_us);
    }
}

static bool nothing_sent(const struct pen_client *c)
{
    return c->pending.oldest == c->pending.unsent;
}

/* At most one of these in a turn: each of them changes what the others look at. */
static void ready_run(struct pen_client *c, uint64_t now_us)
{
    const struct session *s = &c->session;
    if (now_us >= s->heard_us + s->liveness_us || now_us >= transfer_stall_us(c)) {
        connection_lost(c, now_us);
    } else if (now_us >= bulk_way_due_us(&c->link.way)) { /* large payloads go to the endpoint itself next time */
        connection_drop(c, now_us);
    } else if (s->leaving && (now_us >= s->leave_us || nothing_sent(c))) {
        connection_leave(c, now_us);
    } else if (now_us >= s->acknowledge_us) {
        acks_send(c, now_us);
    } else if (now_us >= s->sent_us + s->heartbeat_us) {
        outgoing_plain(c, outgoing_envelope(c, FRAME_PING), now_us);
    }
}

/* The hello got no answer in time. */
static bool hello_over(const struct pen_client *c, uint64_t now_us)
{
    const struct session *s = &c->session;
    return s->state == SESSION_HELLO && s->reopen_us == DEADLINE_NONE &&
           now_us >= s->opened_us + connection_hello_wait_us(c);
}

void timers_run(struct pen_client *c, uint64_t now_us)
{
    struct session *s = &c->session;
    expire(c, now_us);
    if (s->state == SESSION_REFUSED) {
        return;
    }
    if (give_up_us(c) <= now_us) {
        give_up(c, now_us);
    }
    if (s->drop_wanted) {
        s->drop_wanted = false;
        connection_drop(c, now_us);
    }
    if (s->state == SESSION_READY) {
        ready_run(c, now_us);
    } else if (hello_over(c, now_us)) {
        s->unanswered++;
        connection_next_broker(c);
        s->reopen_us = now_us;
    }
    if (now_us >= s->reopen_us) {
        connection_open(c, now_us);
    }
    PEN_ASSERT(s->state != SESSION_READY || s->reopen_us == DEADLINE_NONE, "who is welcomed opens no other connection");
}

uint64_t timers_next_us(struct pen_client *c)
{
    const struct session *s = &c->session;
    uint64_t next = earlier(c->pending.next_deadline_us, give_up_us(c));
    if (s->state == SESSION_READY) {
        next = earlier(next, s->acknowledge_us);
        next = earlier(next, transfer_stall_us(c));
        next = earlier(next, transfer_again_us(c));
        next = earlier(next, bulk_way_due_us(&c->link.way));
        next = earlier(next, s->leaving ? s->leave_us : DEADLINE_NONE);
        next = earlier(next, s->heard_us + s->liveness_us);
        next = earlier(next, s->sent_us + s->heartbeat_us);
    } else if (s->state == SESSION_HELLO) {
        next = earlier(next, s->reopen_us == DEADLINE_NONE ? s->opened_us + connection_hello_wait_us(c) : s->reopen_us);
    }
    return next;
}
