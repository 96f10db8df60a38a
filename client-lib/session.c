#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "deadline.h"
#include "finish.h"
#include "outgoing.h"
#include "result.h"
#include "version.h"
#include "worker.pb-c.h"

#define HEARTBEAT_US        500000u /* until the broker's welcome says better */
#define LIVENESS_US         1500000u
#define HELLO_RETRY_US      1000000u /* a hello without an answer */
#define HELLO_NEXT_US       250000u  /* the same when there are other brokers to try */
#define HELLO_DOUBLINGS     1u       /* of that wait: who answers slower is not hung up on each time */
#define LEAVE_US            200000u /* what a draining broker gets to answer what it has before its jobs are sent elsewhere */
#define LEAVE_LINGER_MS     100
#define REOPEN_PAUSE_US     20000u /* between two sockets: whoever accepts and hangs up must not make us spin */
#define ACKNOWLEDGE_US      50000u /* the contract allows 100 ms */
#define ACKNOWLEDGE_COUNT   64u
#define ACKNOWLEDGE_BYTES   (1024u * 1024u)
#define WELCOME_ARENA_BYTES (64u * 1024u)

#define KEY_REFUSED                                                                                                    \
    "the handshake failed: the broker does not take this key, wants one, or is not the one whose public key was given"

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void session_init(struct session *s)
{
    memset(s, 0, sizeof *s);
    s->uuid = random_u64();
    s->heartbeat_us = HEARTBEAT_US;
    s->liveness_us = LIVENESS_US;
    s->acknowledge_us = DEADLINE_NONE;
    s->lost_us = clock_now_us();
    s->reopen_us = 0;
}

void session_spread(struct pen_client *c)
{
    c->session.broker = (size_t)(c->session.uuid % c->brokers.count);
}

static const char *broker_endpoint(const struct pen_client *c)
{
    return c->brokers.texts[c->session.broker];
}

static uint64_t hello_wait_us(const struct pen_client *c)
{
    size_t rounds = c->session.unanswered / c->brokers.count;
    uint64_t first_us = c->brokers.count > 1 ? HELLO_NEXT_US : HELLO_RETRY_US;
    return first_us << (rounds < HELLO_DOUBLINGS ? rounds : HELLO_DOUBLINGS);
}

/* The one that was spoken to is lost, or does not answer: the next of the list has its turn. */
static void broker_next(struct pen_client *c)
{
    c->session.broker = (c->session.broker + 1) % c->brokers.count;
}

static void hello_send(struct pen_client *c, uint64_t now_us)
{
    uint8_t packed[2048]; /* name and tenant are at most 255 bytes each */
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    hello.uuid = c->session.uuid;
    hello.software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    hello.name = c->name;
    hello.tenant = (char *)(uintptr_t)(c->tenant ? c->tenant : "");
    hello.grace_us = c->grace_us;
    hello.bulk = true;
    size_t bytes = penstock__client_hello__pack(&hello, packed);
    struct envelope env = outgoing_envelope(c, FRAME_CLIENT_HELLO);
    link_send(&c->link, env, packed, bytes);
    c->session.sent_us = c->session.opened_us = now_us;
}

/* No longer welcomed: what was sent is unanswered and will be sent again. */
static void welcome_forget(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state == SESSION_READY) {
        c->session.lost_us = now_us;
    }
    c->session.state = SESSION_HELLO;
    c->session.settled = false;
    c->session.leaving = c->session.draining = false;
    c->session.held_us = 0;
    transfer_reset(c);
    pending_rewind(&c->pending);
    asks_rewind(c);
}

/* The connection goes; the same broker is asked again. */
static void connection_drop(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state == SESSION_REFUSED) {
        return;
    }
    welcome_forget(c, now_us);
    link_close(&c->link, 0);
    c->session.reopen_us = c->session.opened_us + REOPEN_PAUSE_US;
}

void session_lost(struct pen_client *c, uint64_t now_us)
{
    connection_drop(c, now_us);
    broker_next(c);
}

static void refuse(struct pen_client *c, enum pen_status status, const char *text)
{
    c->session.state = SESSION_REFUSED;
    c->session.settled = true;
    pen_error_set(&c->session.refusal, status, "%s", text);
    link_close(&c->link, 0);
    finish_all(c, status, c->session.refusal.text);
    asks_fail(c, status, c->session.refusal.text);
}

static void reopen(struct pen_client *c, uint64_t now_us)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    link_close(&c->link, 0);
    c->session.reopen_us = DEADLINE_NONE;
    if (link_open(&c->link, broker_endpoint(c), &error) != PEN_OK) {
        snprintf(c->session.trouble, sizeof c->session.trouble, "%.250s", error.text);
        c->session.opened_us = now_us;
        c->session.reopen_us = now_us + hello_wait_us(c);
        broker_next(c);
        return;
    }
    c->counters.connections++;
    c->session.heard_us = now_us;
    hello_send(c, now_us);
}

static void acknowledge(struct pen_client *c, uint64_t now_us)
{
    struct envelope env = outgoing_envelope(c, FRAME_ACK);
    env.job.sequence = pending_answered(&c->pending);
    c->session.unacknowledged = 0;
    c->session.unacknowledged_bytes = 0;
    c->session.acknowledge_us = DEADLINE_NONE;
    if (env.job.sequence && !outgoing_plain(c, env, now_us)) {
        c->session.acknowledge_us = now_us + ACKNOWLEDGE_US;
    }
}

/* The oldest job that no broker has; NULL: none. One that ends takes no new jobs, and still answers others. */
static struct pen_job *stranded(const struct pen_client *c)
{
    struct pen_job *job = c->pending.oldest;
    if (c->session.state == SESSION_HELLO) {
        return job;
    }
    while (job && job != c->pending.unsent && !job->held) {
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
    const char *trouble = session_trouble(c);
    char text[PEN_ERROR_TEXT_BYTES];
    if (c->session.held_us) {
        snprintf(text, sizeof text, "the broker at %s is draining and no other took its place for %.1f s.", c->endpoint,
                 (double)(now_us - c->session.held_us) * 1e-6);
    } else {
        snprintf(text, sizeof text, "no broker at %s for %.1f s%s%s; is penstock-broker running there?", c->endpoint,
                 (double)(now_us - c->session.lost_us) * 1e-6, *trouble ? ": " : "", trouble);
    }
    while (give_up_us(c) <= now_us) {
        finish_job(c, stranded(c), result_local(PEN_ERR_UNAVAILABLE, text), now_us);
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

/* Says goodbye to a draining broker; what it has not answered is sent to the next. */
static void leave(struct pen_client *c, uint64_t now_us)
{
    acknowledge(c, now_us);
    link_send(&c->link, outgoing_envelope(c, FRAME_GOODBYE), NULL, 0);
    welcome_forget(c, now_us);
    link_close(&c->link, LEAVE_LINGER_MS);
    broker_next(c);
    c->session.left++;
    c->session.reopen_us = c->session.opened_us + REOPEN_PAUSE_US;
}

void session_tick(struct pen_client *c, uint64_t now_us)
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
        if (now_us >= s->heard_us + s->liveness_us || now_us >= transfer_stall_us(c)) {
            session_lost(c, now_us);
        } else if (now_us >= bulk_way_due_us(&c->link.way)) { /* large payloads go to the endpoint itself next time */
            connection_drop(c, now_us);
        } else if (s->leaving && (now_us >= s->leave_us || nothing_sent(c))) {
            leave(c, now_us);
        } else if (now_us >= s->acknowledge_us) {
            acknowledge(c, now_us);
        } else if (now_us >= s->sent_us + s->heartbeat_us) {
            outgoing_plain(c, outgoing_envelope(c, FRAME_PING), now_us);
        }
    } else if (s->reopen_us == DEADLINE_NONE && now_us >= s->opened_us + hello_wait_us(c)) {
        s->unanswered++;
        broker_next(c);
        s->reopen_us = now_us;
    }
    if (now_us >= s->reopen_us) {
        reopen(c, now_us);
    }
}

uint64_t session_next_us(struct pen_client *c)
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
        next = earlier(next, s->reopen_us == DEADLINE_NONE ? s->opened_us + hello_wait_us(c) : s->reopen_us);
    }
    return next;
}

void session_flush(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state != SESSION_READY) {
        return;
    }
    if (c->session.unacknowledged >= ACKNOWLEDGE_COUNT || c->session.unacknowledged_bytes >= ACKNOWLEDGE_BYTES) {
        acknowledge(c, now_us);
    }
    if (!c->session.leaving && !c->session.held_us) {
        outgoing_jobs(c, now_us);
    }
    if (c->session.cancels_waiting) {
        outgoing_cancels(c, now_us);
    }
    transfer_again(c, now_us);
    if (c->asks) {
        asks_send(c);
    }
}

void session_cancel(struct pen_client *c, struct pen_job *job)
{
    if (job->answered || job->cancelled) {
        return;
    }
    job->cancelled = true;
    if (c->session.state != SESSION_READY || job->sends == 0 || job->held) {
        finish_job(c, job, result_local(PEN_ERR_CANCELLED, "the caller cancelled the job before it was sent."),
                   clock_now_us());
        return;
    }
    job->cancel = true;
    c->session.cancels_waiting = true;
}

static void welcomed(struct pen_client *c, const Penstock__Welcome *welcome, uint8_t minor, uint64_t now_us)
{
    struct session *s = &c->session;
    s->broker_minor = minor;
    s->heartbeat_us = clamp(welcome->heartbeat_us ? welcome->heartbeat_us : HEARTBEAT_US, 10000, 60000000);
    s->liveness_us = clamp(welcome->liveness_us ? welcome->liveness_us : LIVENESS_US, 2 * s->heartbeat_us, 300000000);
    s->frame_bytes_max = welcome->max_frame_bytes;
    s->job_bytes_max = welcome->max_job_bytes;
    s->detached = welcome->detached;
    s->bulk_bytes = welcome->bulk_bytes;
    bulk_way_welcome(&c->link.way, welcome->broker_uuid, welcome->bulk_port, s->liveness_us);
    s->digest_first_bytes = welcome->bulk_bytes ? welcome->digest_first_bytes : 0;
    s->digest_kind = welcome->digest_kind == DIGEST_SHA256 ? DIGEST_SHA256 : DIGEST_XXH3;
    s->trouble[0] = '\0';
    s->state = SESSION_READY;
    s->settled = s->welcomed = true;
    acknowledge(c, now_us); /* what came before the loss need not be kept or answered again */
}

static void welcome_receive(struct pen_client *c, const struct incoming *in, uint64_t now_us)
{
    struct meta_arena arena;
    char text[PEN_ERROR_TEXT_BYTES];
    meta_arena_init(&arena, WELCOME_ARENA_BYTES);
    Penstock__Welcome *welcome = meta_unpack(&arena, &penstock__welcome__descriptor, in->meta, in->env.meta_bytes);
    c->session.unanswered = 0;
    if (!welcome) {
        c->counters.messages_bad++;
    } else if (in->env.status == PEN_OK) {
        welcomed(c, welcome, in->env.minor, now_us);
    } else {
        snprintf(text, sizeof text, "%.900s", *welcome->error ? welcome->error : "the broker refuses this client.");
        bool accident = in->env.status == PEN_ERR_DENIED && c->session.welcomed;
        if (accident || pen_status_retryable((enum pen_status)in->env.status)) {
            snprintf(c->session.trouble, sizeof c->session.trouble, "%.250s", text);
        } else {
            refuse(c, (enum pen_status)in->env.status, text);
        }
    }
    meta_arena_fini(&arena);
}

void session_message(struct pen_client *c, const struct incoming *in, uint64_t now_us)
{
    c->session.heard_us = now_us;
    switch (in->env.type) {
    case FRAME_WELCOME:
        welcome_receive(c, in, now_us);
        break;
    case FRAME_RESUME:
        if (c->session.state == SESSION_READY && c->link.bulk) { /* what is under way on it is lost */
            connection_drop(c, now_us);
        } else if (c->session.state == SESSION_READY) { /* else our hello is on its way */
            welcome_forget(c, now_us);
            hello_send(c, now_us);
        }
        break;
    case FRAME_PING:
        outgoing_plain(c, outgoing_envelope(c, FRAME_PONG), now_us);
        break;
    case FRAME_DRAIN:
        if (c->session.state == SESSION_READY && c->session.left + 1 < c->brokers.count && !c->session.leaving) {
            c->session.leaving = true;
            c->session.leave_us = now_us + LEAVE_US;
        } else if (c->session.state == SESSION_READY && !c->session.leaving) {
            c->session.draining = !c->tell_drain;
        }
        break;
    case FRAME_CREDIT:
        transfer_credit(c, &in->env, now_us);
        break;
    case FRAME_CONTROL_REPLY:
        asks_answer(c, in);
        break;
    default: /* PONG counts as life, types of a newer minor version are skipped */
        break;
    }
}

/*
 * The only broker is about to end and did not take the job, or could not finish it: the one that comes in its place gets it, and all that are newer. Of a
 * sequence the next one knows nothing, so only its first job can wait.
 */
static bool hold(struct pen_client *c, const struct incoming *in, struct pen_job *job, uint64_t now_us)
{
    bool within = job->env.sequence_id != 0 && !(job->env.flags & FRAME_FLAG_SEQUENCE_START);
    if (!c->session.draining || in->env.status != PEN_ERR_UNAVAILABLE || job->cancelled || within) {
        return false;
    }
    job->held = true;
    c->session.held_us = c->session.held_us ? c->session.held_us : now_us;
    return true;
}

void session_result(struct pen_client *c, const struct incoming *in, struct pen_result *result, uint64_t now_us)
{
    struct session *s = &c->session;
    s->heard_us = now_us;
    struct pen_job *job = in->env.job.client == s->uuid ? pending_find(&c->pending, in->env.job.sequence) : NULL;
    if (!job || in->env.flags & FRAME_FLAG_PARTIAL) {
        c->counters.results_duplicate += !job;
        pen_result_free(result);
        return;
    }
    if (s->leaving && in->env.status == PEN_ERR_UNAVAILABLE) { /* it takes no more jobs: another broker gets this one */
        pen_result_free(result);
        return;
    }
    if (hold(c, in, job, now_us)) {
        pen_result_free(result);
        return;
    }
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        s->unacknowledged_bytes += pen_result_output(result, i)->bytes;
    }
    s->left = 0;
    s->unacknowledged++;
    s->acknowledge_us = earlier(s->acknowledge_us, now_us + ACKNOWLEDGE_US);
    finish_job(c, job, result, now_us);
}

void session_garbage(struct pen_client *c, const struct pen_error *error)
{
    c->counters.messages_bad++;
    if (c->session.state == SESSION_HELLO) {
        if (error->status == PEN_ERR_VERSION) {
            refuse(c, PEN_ERR_VERSION, error->text);
        } else {
            snprintf(c->session.trouble, sizeof c->session.trouble, "%.250s", error->text);
        }
    }
}

const char *session_trouble(const struct pen_client *c)
{
    return c->link.refused || c->link.refused_before ? KEY_REFUSED : c->session.trouble;
}

void session_end(struct pen_client *c)
{
    bool ready = c->session.state == SESSION_READY;
    if (ready) {
        acknowledge(c, clock_now_us());
        link_send(&c->link, outgoing_envelope(c, FRAME_GOODBYE), NULL, 0);
    }
    link_close(&c->link, ready ? 100 : 0);
    finish_all(c, PEN_ERR_CANCELLED, "the client was closed before the answer came.");
    asks_fail(c, PEN_ERR_CANCELLED, "the client was closed before the answer came.");
}
