#include "handover_out.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "control.pb-c.h"
#include "deadline.h"
#include "dispatch.h"
#include "job.pb-c.h"
#include "keys.h"
#include "logline.h"
#include "meta_fields.h"
#include "send.h"
#include "states.h"
#include "wire_reader.h"

#define WINDOW_JOBS  1024u
#define WINDOW_BYTES (16u * 1024u * 1024u) /* of jobs that are offered and not answered; one job alone may have more */
#define LOOK_US      10000u
#define MOVES_MAX    256u /* clients that are sent away at one look: all at once would be a crowd at the other's door */
#define MOVE_WAIT_US 150000u /* how long a client stays for the answers of its jobs that run */
#define HANDED_BYTES 384u    /* HandedOver packed, and what else is added to a meta */

/* ---- which jobs ---- */

static bool session_goes(const struct session *session)
{
    return session->follows && session->owner == OWNER_CLIENT;
}

/* Large payloads come in chunks, and then may be longer than what a broker takes as one frame: it would hang up. */
static bool frames_fit(const struct broker *broker, const struct shared_message *request)
{
    for (size_t i = 1; i < request->count; i++) {
        if (zmq_msg_size((zmq_msg_t *)(uintptr_t)&request->frames[i]) > (uint64_t)broker->options->max_frame_bytes)
            return false;
    }
    return true;
}

static bool job_goes(const struct broker *broker, const struct job *job)
{
    size_t header_bytes = zmq_msg_size((zmq_msg_t *)(uintptr_t)&job->request->frames[0]);
    return job->state == JOB_QUEUED && job->owner == OWNER_CLIENT && !job->front && !job->offered && !job->alone &&
           !job->debug && job->lane->model->sequence_idle_us == 0 &&
           header_bytes + HANDED_BYTES <= FRAME_ENVELOPE_BYTES + FRAME_META_BYTES_MAX &&
           frames_fit(broker, job->request);
}

static bool has_room(const struct handover *handover, const struct job *job)
{
    uint64_t bytes = handover->bytes + shared_message_bytes(job->request);
    return handover->count == 0 || (handover->count < WINDOW_JOBS && bytes <= WINDOW_BYTES);
}

/* ---- the message: the job's request, and behind its meta whose job it is ---- */

static size_t handed_pack(const struct session *session, uint8_t to[HANDED_BYTES])
{
    uint8_t packed[HANDED_BYTES];
    char key[KEY_TEXT_BYTES] = "";
    Penstock__HandedOver handed = PENSTOCK__HANDED_OVER__INIT;
    handed.tenant = (char *)(uintptr_t)session->tenant->name;
    handed.name = (char *)(uintptr_t)session->name;
    handed.grace_us = session->grace_us;
    handed.key = session->identity ? (char *)(uintptr_t)key_text(session->identity->key, key) : key;
    size_t bytes = penstock__handed_over__pack(&handed, packed);
    PEN_ASSERT(bytes + 2 * WIRE_KEY_BYTES <= HANDED_BYTES, "whose job it is fits behind its meta");
    size_t at = wire_put_key(to, JOB_META_HANDED, WIRE_BYTES);
    at += wire_put_varint(to + at, bytes);
    memcpy(to + at, packed, bytes);
    return at + bytes;
}

/* The version that the broker chose is taken back where the client named none. NULL without memory. */
static struct shared_message *offer_make(const struct broker *broker, const struct job *job)
{
    uint8_t handed[HANDED_BYTES];
    struct patch patch = {.more = handed, .more_bytes = handed_pack(job->session, handed)};
    struct envelope env;
    const uint8_t *meta;
    struct shared_message *shared = shared_message_share_raws(job->request);
    if (!shared || !shared_message_open(job->request, &env, &meta)) {
        shared_message_release(shared);
        return NULL;
    }
    env.flags |= FRAME_FLAG_RESENT;
    if (env.deadline_us != 0)
        env.deadline_us = deadline_remaining(broker->now_us, job->deadline_us);
    if (job->any_version)
        patch_number(&patch, JOB_META_VERSION, 0);
    if (shared_message_set_header(shared, &env, meta, env.meta_bytes, &patch) == PEN_OK)
        return shared;
    shared_message_release(shared);
    return NULL;
}

static bool offer_send(struct neighbour *to, const struct shared_message *shared)
{
    zmq_msg_t frames[FRAME_MAX_TENSORS + 1];
    for (size_t i = 0; i < shared->count; i++)
        shared_message_frame(shared, i, &frames[i]);
    return to->dealer.send(&to->dealer, frames, shared->count);
}

/* ---- a job's steps ---- */

static bool offer(struct broker *broker, struct job *job)
{
    struct handover *handover = &broker->neighbours.handover;
    struct shared_message *shared = offer_make(broker, job);
    bool sent = shared && offer_send(handover->to, shared);
    shared_message_release(shared);
    if (!sent)
        return false;
    answer_apart(broker, job); /* identical jobs that wait for its result go by themselves */
    lane_remove(job->lane, job);
    states_set(job, JOB_HANDED);
    TAILQ_INSERT_TAIL(&handover->out, job, in_group);
    if (handover->count++ == 0)
        handover->answered_us = broker->now_us;
    handover->bytes += shared_message_bytes(job->request);
    return true;
}

/* It waits here again, where its priority, deadline and arrival place it. It may run elsewhere, too: then its client gets one of the two answers. */
static void take_back(struct broker *broker, struct job *job)
{
    PEN_ASSERT(job->state == JOB_HANDED, "who comes back was handed over");
    dispatch_unhand(broker, job);
    job->offered = true;
    dispatch_queue(broker, job);
}

/* Gone without an answer from here. */
static void handed_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                         const struct ending *ending)
{
    (void)ending;
    shared_message_release(reply);
    answer_retire(broker, job, status);
    session_remove(job->session, job);
    jobs_free(&broker->jobs, job);
}

const struct job_owner handover_owner = {.name = "handed", .moves = true, .ended = handed_ended};

void handover_answered(struct broker *broker, const struct neighbour *from, const struct envelope *env)
{
    struct handover *handover = &broker->neighbours.handover;
    struct job *job = jobs_find(&broker->jobs, env->job);
    if (from != handover->to || !job || job->state != JOB_HANDED)
        return; /* it has ended meanwhile, or waits here again */
    handover->answered_us = broker->now_us;
    handover->due_us = broker->now_us;
    if (env->status != PEN_OK) {
        job->session->stays = true; /* what it has is not welcome there: it stays as long as it can */
        take_back(broker, job);
        return;
    }
    job->session->gave = true;
    job->owner = OWNER_HANDED;
    answer_error(broker, job, PEN_ERR_UNAVAILABLE, "another broker has it");
}

void handover_recall(struct broker *broker, const struct envelope *env)
{
    struct neighbour *to = broker->neighbours.handover.to;
    struct envelope cancel = envelope_make(FRAME_CANCEL);
    cancel.job = env->job;
    if (to)
        dealer_say(&to->dealer, cancel, NULL, 0);
}

/* Jobs of theirs may be gone with the neighbour: they send again what they have no answer to. */
static void recall_clients(struct broker *broker)
{
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        if (session->gave && session->connected && !session->told)
            broker_resume(broker, broker->clients, session->link.peer);
        session->gave = false;
    }
}

void handover_lost(struct broker *broker, const struct neighbour *from)
{
    struct handover *handover = &broker->neighbours.handover;
    struct job *job;
    if (from != handover->to)
        return;
    log_event(LOG_WARN, "handover_lost", "endpoint=%s jobs=%u", from->endpoint, handover->count);
    while ((job = TAILQ_FIRST(&handover->out)) != NULL)
        take_back(broker, job);
    recall_clients(broker);
    handover->to = NULL;
    PEN_ASSERT(handover->count == 0 && handover->bytes == 0, "what came back is not counted as offered");
}

/* ---- while the broker drains ---- */

static void offer_some(struct broker *broker)
{
    struct handover *handover = &broker->neighbours.handover;
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        struct job *job;
        bool goes = session_goes(session) && !session->stays; /* where a client waits its jobs are answered */
        for (job = goes ? TAILQ_FIRST(&session->live) : NULL; job; job = TAILQ_NEXT(job, in_session)) {
            if (job_goes(broker, job) && (!has_room(handover, job) || !offer(broker, job)))
                return; /* what was offered stays in its session */
        }
    }
}

/* Its client goes when nothing runs for it here any more, or when it has waited long enough for that. */
static bool is_to_move(const struct broker *broker, const struct session *session)
{
    bool late = broker->now_us + (uint64_t)broker->options->drain_delay_us >= broker->drain_refuse_us + MOVE_WAIT_US;
    return session->connected && session_goes(session) && !session->told &&
           (session->live_count == 0 || (late && !session->stays));
}

static void move_clients(struct broker *broker)
{
    struct session *session;
    uint32_t moved = 0;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        if (!is_to_move(broker, session))
            continue;
        if (moved++ == MOVES_MAX)
            return; /* the others at the next look */
        session->told = true;
        broker_resume_at(broker, session, broker->neighbours.handover.to->endpoint);
        broker->stats.clients_redirected++;
    }
}

static void choose_neighbour(struct broker *broker)
{
    struct handover *handover = &broker->neighbours.handover;
    uint64_t liveness_us = (uint64_t)broker->options->liveness_us;
    struct neighbour *to = handover->to;
    bool silent = handover->count > 0 && broker->now_us - handover->answered_us >= liveness_us;
    if (to && (silent || !neighbour_here(to, broker->now_us, liveness_us)))
        handover_lost(broker, to);
    if (handover->to)
        return;
    handover->to = neighbours_for_jobs(&broker->neighbours, broker->now_us, liveness_us);
    if (handover->to)
        log_event(LOG_INFO, "handover", "endpoint=%s jobs=%" PRIu64, handover->to->endpoint, broker->live);
}

void handover_tick(struct broker *broker)
{
    struct handover *handover = &broker->neighbours.handover;
    if (!broker->draining || broker->neighbours.count == 0 || broker->now_us < handover->due_us)
        return;
    handover->due_us = broker->now_us + LOOK_US;
    choose_neighbour(broker);
    if (!handover->to)
        return;
    if (handover->count < WINDOW_JOBS / 2)
        offer_some(broker);
    move_clients(broker);
}

uint64_t handover_next_us(const struct broker *broker)
{
    return broker->draining && broker->neighbours.count > 0 ? broker->neighbours.handover.due_us : DEADLINE_NONE;
}

bool handover_owes(const struct broker *broker)
{
    const struct session *session;
    if (!broker->draining || !broker->neighbours.handover.to)
        return false;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        if (session->connected && session_goes(session) && !session->told)
            return true;
    }
    return false;
}
