#include "session.h"

#include <stdio.h>
#include <string.h>

#include "acks.h"
#include "assertion.h"
#include "connection.h"
#include "deadline.h"
#include "finish.h"
#include "job.h"
#include "tensor_codec.h"
#include "outgoing.h"
#include "parcels.h"
#include "questions.h"
#include "redirect.h"
#include "result.h"
#include "transfer.h"
#include "job.pb-c.h"
#include "worker.pb-c.h"

#define LEAVE_US            200000u /* what a draining broker gets to answer what it has before its jobs are sent elsewhere */
#define WELCOME_ARENA_BYTES (64u * 1024u)
#define NOTICE_ARENA_BYTES  (4u * 1024u)

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void session_flush(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state != SESSION_READY) {
        return;
    }
    link_hold(&c->link); /* what is there now leaves together */
    if (acks_many(&c->session)) {
        acks_send(c, now_us);
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
    link_release(&c->link);
}

void session_cancel(struct pen_client *c, struct pen_job *job)
{
    if (job->state >= JOB_ANSWERED || job->cancelled) {
        return;
    }
    PEN_ASSERT(job_pending(job), "a job that is cancelled has been submitted");
    job->cancelled = true;
    if (c->session.state != SESSION_READY || job->sends == 0 || job->state == JOB_HELD) {
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
    s->heartbeat_us = clamp(welcome->heartbeat_us ? welcome->heartbeat_us : SESSION_HEARTBEAT_US, 10000, 60000000);
    s->liveness_us =
        clamp(welcome->liveness_us ? welcome->liveness_us : SESSION_LIVENESS_US, 2 * s->heartbeat_us, 300000000);
    s->frame_bytes_max = welcome->max_frame_bytes;
    s->job_bytes_max = welcome->max_job_bytes;
    s->detached = welcome->detached;
    s->needs = welcome->needs;
    s->contracts = welcome->contracts;
    s->bulk_bytes = welcome->bulk_bytes;
    bulk_way_welcome(&c->link.way, welcome->broker_uuid, welcome->bulk_port, s->liveness_us);
    link_packs(&c->link, welcome->pack_bytes);
    parcels_welcome(c, welcome);
    s->digest_first_bytes = welcome->bulk_bytes ? welcome->digest_first_bytes : 0;
    s->digest_kind = welcome->digest_kind == DIGEST_SHA256 ? DIGEST_SHA256 : DIGEST_XXH3;
    session_trouble_note(s, "");
    session_enter(s, SESSION_READY);
    PEN_ASSERT(s->heartbeat_us < s->liveness_us, "a broker hears of us before it takes us for lost");
    if (!*s->redirect) {
        redirect_settle(c); /* one of our own list */
    }
    acks_send(c, now_us); /* what came before the loss need not be kept or answered again */
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
    } else if (in->env.status == PEN_OK && c->session.state == SESSION_HELLO && redirect_welcome(c, welcome, now_us)) {
        session_trouble_note(&c->session, "");
    } else if (in->env.status == PEN_OK) {
        welcomed(c, welcome, in->env.minor, now_us);
    } else {
        snprintf(text, sizeof text, "%.900s", *welcome->error ? welcome->error : "the broker refuses this client.");
        bool accident = in->env.status == PEN_ERR_DENIED && c->session.welcomed;
        if (accident || pen_status_retryable((enum pen_status)in->env.status)) {
            session_trouble_note(&c->session, text);
        } else {
            connection_refuse(c, (enum pen_status)in->env.status, text);
        }
    }
    meta_arena_fini(&arena);
}

/* The broker asks who we are, or sends us to the one that has our jobs now. */
static void resume_receive(struct pen_client *c, const struct incoming *in, uint64_t now_us)
{
    if (c->session.state != SESSION_READY || redirect_resume(c, in, now_us)) {
        return; /* our hello is on its way */
    }
    parcels_upset(c);
    if (c->link.bulk) { /* what is under way on it is lost */
        connection_drop(c, now_us);
    } else {
        connection_resume(c, now_us);
    }
}

/* The broker is about to end: there is another one, or its jobs wait for the one that comes in its place. */
static void drain_receive(struct pen_client *c, uint64_t now_us)
{
    struct session *s = &c->session;
    if (s->state != SESSION_READY || s->leaving) {
        return;
    }
    if (*s->redirect || s->left + 1 < c->brokers.count) {
        s->leaving = true;
        s->leave_us = now_us + LEAVE_US;
    } else {
        s->draining = !c->tell_drain;
    }
}

/* A job waits for its model. What cannot be read is passed over: the job runs all the same. */
static void notice_receive(struct pen_client *c, const struct incoming *in, uint64_t now_us)
{
    struct meta_arena arena;
    struct pen_job *job =
        in->env.job.client == c->session.uuid ? pending_find(&c->pending, in->env.job.sequence) : NULL;
    if (!job) {
        return; /* its answer was quicker */
    }
    meta_arena_init(&arena, NOTICE_ARENA_BYTES);
    Penstock__JobNotice *notice = meta_unpack(&arena, &penstock__job_notice__descriptor, in->meta, in->env.meta_bytes);
    if (notice) {
        job->hold = strcmp(notice->reason, "loading") == 0 ? PEN_HOLD_LOADING : PEN_HOLD_NO_WORKER;
        job->hold_expect_us = notice->wait_us;
        job->hold_us = now_us;
    }
    c->counters.messages_bad += !notice;
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
        resume_receive(c, in, now_us);
        break;
    case FRAME_PING:
        outgoing_plain(c, outgoing_envelope(c, FRAME_PONG), now_us);
        break;
    case FRAME_DRAIN:
        drain_receive(c, now_us);
        break;
    case FRAME_CREDIT:
        transfer_credit(c, &in->env, now_us);
        break;
    case FRAME_CONTROL_REPLY:
        asks_answer(c, in);
        break;
    case FRAME_NOTICE:
        notice_receive(c, in, now_us);
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
    PEN_ASSERT(c->session.state == SESSION_READY, "only a broker that has welcomed us drains");
    job_enter(job, JOB_HELD);
    c->session.held_us = c->session.held_us ? c->session.held_us : now_us;
    return true;
}

/* A model that comes in another version than those that are known was loaded since. */
static void look_at_version(struct pen_client *c, const struct pen_result *result)
{
    const struct pen_result_info *info = pen_result_info(result);
    bool known = !c->known || !info->version || !*info->model;
    for (size_t i = 0; !known && i < c->known->count; i++) {
        const struct pen_model *model = c->known->models[i];
        known = model->version == info->version && strcmp(model->name, info->model) == 0;
    }
    c->known_us = known ? c->known_us : 0;
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
    bool refused = s->leaving && in->env.status == PEN_ERR_UNAVAILABLE; /* another broker gets it */
    if (refused || hold(c, in, job, now_us)) {
        pen_result_free(result);
        return;
    }
    PEN_ASSERT(job_pending(job), "who is found by its number awaits its answer");
    s->left = 0;
    redirect_settle(c);
    parcels_answered(c, job);
    acks_count(c, result, now_us);
    look_at_version(c, result);
    finish_job(c, job, result, now_us);
}

bool session_part(struct pen_client *c, struct incoming *in, uint64_t now_us, struct incoming *ret_whole)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    c->session.heard_us = now_us;
    if (in->env.type == FRAME_CHUNK) {
        return transfer_chunk(c, in, now_us, ret_whole);
    }
    if (in->env.flags & FRAME_FLAG_SEALED) {
        return parcels_result(c, in, ret_whole);
    }
    struct pen_job *refused = transfer_result(c, in, now_us, &error);
    if (refused) {
        finish_job(c, refused, result_local(error.status, error.text), now_us);
    }
    return false;
}

void session_garbage(struct pen_client *c, const struct pen_error *error)
{
    c->counters.messages_bad++;
    if (c->session.state == SESSION_HELLO) {
        if (error->status == PEN_ERR_VERSION) {
            connection_refuse(c, PEN_ERR_VERSION, error->text);
        } else {
            session_trouble_note(&c->session, error->text);
        }
    }
}
