#include "transfer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "digest_first.h"
#include "large_frame.h"
#include "logline.h"
#include "submit.h"
#include "urgency.h"
#include "transfer.h"
#include "states.h"

#define RESULT_WAIT_US 1000000u /* wait this long for memory, after some was last given back */
#define MEMORY_LOOK_US 20000u

/* ---- entries ---- */

struct transfer_in *transfer_in_find(const struct transfer_link *link, struct job_id id)
{
    struct transfer_in *in = NULL;
    if (link)
        TAILQ_FOREACH(in, &link->ins, in_link)
        {
            if (job_id_equal(in->env.job, id))
                break;
        }
    return in;
}

/* A worker that runs a job twice announces it twice: the number tells which transfer a chunk belongs to. */
static struct transfer_in *in_of_chunk(const struct transfer_link *link, const struct envelope *env)
{
    struct transfer_in *in;
    TAILQ_FOREACH(in, &link->ins, in_link)
    {
        if (in->run.number == env->transfer && job_id_equal(in->env.job, env->job))
            break;
    }
    return in;
}

/* The header is kept for long; the one that came may be a part of a PACK. */
static bool keep_header(struct transfer_in *in, const zmq_msg_t *header)
{
    zmq_msg_t copy, *from = (zmq_msg_t *)(uintptr_t)header; /* libzmq has no const; nothing is written */
    if (zmq_msg_init_size(&copy, zmq_msg_size(from)) != 0)
        return false;
    memcpy(zmq_msg_data(&copy), zmq_msg_data(from), zmq_msg_size(from));
    return message_add(&in->message, &copy) == PEN_OK;
}

struct transfer_in *transfer_in_new(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                    const struct bulk *run, const zmq_msg_t *header)
{
    struct transfer_in *in = calloc(1, sizeof *in);
    if (!in || !keep_header(in, header)) {
        free(in);
        return NULL;
    }
    in->link = link;
    in->env = *env;
    in->run = *run;
    in->since_us = in->moved_us = broker->now_us;
    PEN_ASSERT(!in->open && !in->blocked && run->moved <= run->total, "a payload that is announced has no credit yet");
    TAILQ_INSERT_TAIL(&link->ins, in, in_link);
    link->ins_count++;
    if (link->end->session) {
        TAILQ_INSERT_TAIL(&broker->transfers.waiting, in, in_waiting);
        states_hold_bytes(broker, run->total);
        broker->transfers.bytes += run->total;
        quota_take(link->end->session->identity, run->total);
    }
    return in;
}

void transfer_in_free(struct broker *broker, struct transfer_in *in)
{
    struct transfer_link *link = in->link;
    PEN_ASSERT(link->ins_count > 0 && link->ins_open >= in->open && link->ins_blocked >= in->blocked,
               "a payload that goes was counted on its connection");
    PEN_ASSERT(!link->end->session || (broker->transfers.open >= in->open && broker->transfers.bytes >= in->run.total),
               "a client's payload that goes was counted among all");
    TAILQ_REMOVE(&link->ins, in, in_link);
    link->ins_count--;
    link->ins_open -= in->open;
    link->ins_blocked -= in->blocked;
    if (link->end->session) {
        broker->transfers.open -= in->open;
        if (!in->open)
            TAILQ_REMOVE(&broker->transfers.waiting, in, in_waiting);
        states_give_bytes(broker, in->run.total);
        broker->transfers.bytes -= in->run.total;
        quota_give(link->end->session->identity, in->run.total);
    }
    effect_drop(&in->here);
    message_fini(&in->message);
    broker->transfers.freed_us = broker->now_us;
    free(in);
}

static bool take_frames(struct transfer_in *in, struct message *message)
{
    if (!message_own(message))
        return false;
    for (size_t i = 1; i < message->count; i++) {
        if (message_add(&in->message, &message->frames[i]) != PEN_OK)
            return false;
    }
    return true;
}

enum pen_status transfer_in_announce(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                     const struct bulk *run, struct message *message, struct transfer_in **ret_in,
                                     struct pen_error *reterr)
{
    if (link && link->ins_count >= TRANSFER_ANNOUNCED)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u jobs are announced already; try again later", link->ins_count);
    struct transfer_in *in = link ? transfer_in_new(broker, link, env, run, &message->frames[0]) : NULL;
    if (in && take_frames(in, message)) {
        *ret_in = in;
        return PEN_OK;
    }
    if (in)
        transfer_in_free(broker, in);
    return pen_error_set(reterr, PEN_ERR_BUSY, "the broker has no memory for the job; try again later");
}

/* Allocates all of it or nothing, so that it can be tried again. */
static bool take_memory(struct transfer_in *in)
{
    for (uint32_t i = 0; i < in->run.count; i++) {
        zmq_msg_t frame;
        if (large_frame_new(&frame, in->run.sizes[i]) == 0 && message_add(&in->message, &frame) == PEN_OK)
            continue;
        message_cut(&in->message, 1);
        return false;
    }
    return true;
}

/* ---- whose turn it is ---- */

static void give_up(struct broker *broker, struct transfer_in *in, enum pen_status status, const char *text)
{
    struct session *session = in->link->end->session;
    struct envelope env = in->env;
    if (session) {
        transfer_in_free(broker, in);
        answer_refuse(broker, session, &env, status, text);
        return;
    }
    transfer_decline(broker, in->link->end, &env);
    in->dropped = true;
    broker->transfers.freed_us = broker->now_us; /* its memory is freed in a moment: the next one waits for that */
    effect_post(&broker->effects, &in->here, EFFECT_PAYLOAD_HERE); /* otherwise its slot would never be free again */
}

/*
 * The job was accepted, so its result waits for memory: other answers free theirs when they have been sent, and new
 * jobs are refused in the meantime. When jobs that wait for each other hold all memory, one of them must be given up in
 * the end.
 */
static void wait_for_memory(struct broker *broker, struct transfer_in *in)
{
    if (in->lacking_us == 0)
        in->lacking_us = broker->now_us;
    uint64_t since_us = in->lacking_us > broker->transfers.freed_us ? in->lacking_us : broker->transfers.freed_us;
    if (broker->now_us - since_us >= RESULT_WAIT_US) {
        give_up(broker, in, PEN_ERR_BUSY, "");
        return;
    }
    headroom_relieve(broker->headroom, broker->now_us);
    broker->transfers.memory_us = broker->now_us + MEMORY_LOOK_US;
}

/* Refuses a client's job that cannot be taken, and the jobs of its sequence that wait for it. */
static void turn_away(struct broker *broker, struct transfer_in *in, const char *text)
{
    struct session *session = in->link->end->session;
    give_up(broker, in, PEN_ERR_BUSY, text);
    transfer_follow(broker, session);
}

static void open_one(struct broker *broker, struct transfer_in *in)
{
    struct transfer_link *link = in->link;
    struct pen_error error = {.status = PEN_OK};
    if (link->end->session && submit_memory(broker, 0, in->run.total, &error) != PEN_OK) {
        turn_away(broker, in, error.text);
        return;
    }
    in->tried_us = broker->now_us;
    if (!take_memory(in)) {
        if (link->end->session)
            turn_away(broker, in, "the broker has no memory for the job's payload; try again later");
        else
            wait_for_memory(broker, in);
        return;
    }
    PEN_ASSERT(!in->open && !in->blocked && link->ins_open < TRANSFER_OPEN_PEER,
               "a payload gets its first credit once, in its turn");
    in->open = true;
    if (link->end->session) {
        TAILQ_REMOVE(&broker->transfers.waiting, in, in_waiting);
        broker->transfers.open++;
    }
    if (link->ins_open++ == 0)
        link->moved_us = broker->now_us;
    bulk_grant(&in->run);
    transfer_tell(broker, link->end, in->env.job, in->run.number, in->run.granted, PEN_OK);
}

static struct transfer_in *next_of_clients(struct broker *broker)
{
    struct transfer_in *in = NULL;
    if (broker->transfers.open < TRANSFER_OPEN_MAX)
        TAILQ_FOREACH(in, &broker->transfers.waiting, in_waiting)
        {
            if (in->question == 0 && !in->blocked && !effect_posted(&in->here) && in->link->end->session->connected &&
                in->link->ins_open < TRANSFER_OPEN_PEER)
                break;
        }
    return in;
}

/* A result that found no memory lets smaller ones pass. */
static struct transfer_in *next_of_worker(const struct broker *broker, const struct transfer_end *end)
{
    struct transfer_in *in = NULL;
    if (end->link && end->link->ins_open < TRANSFER_OPEN_PEER)
        TAILQ_FOREACH(in, &end->link->ins, in_link)
        {
            if (!in->open && !in->dropped && in->tried_us != broker->now_us)
                break;
        }
    return in;
}

/* Ends, because each one is opened, is freed, or has been tried in this call. */
void transfer_in_open(struct broker *broker, struct transfer_end *end)
{
    struct transfer_in *in;
    while ((in = end->session ? next_of_clients(broker) : next_of_worker(broker, end)) != NULL)
        open_one(broker, in);
}

void transfer_memory_tick(struct broker *broker)
{
    struct transfer_link *link;
    broker->transfers.memory_us = UINT64_MAX;
    TAILQ_FOREACH(link, &broker->transfers.links, in_hub)
    {
        if (link->end->worker)
            transfer_in_open(broker, link->end);
    }
}

/* ---- announcements ---- */

static enum pen_status read_job(struct broker *broker, const struct envelope *env, const uint8_t *meta,
                                struct bulk *ret_run, uint64_t *ret_after, struct pen_error *reterr)
{
    meta_arena_reset(&broker->arena);
    Penstock__JobMeta *job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!job)
        return meta_refusal(&broker->arena, "the job's meta is no JobMeta (proto/job.proto)", reterr);
    *ret_after = job->sequence_after;
    return bulk_expect(ret_run, env->transfer, job->inputs, job->n_inputs, env->frames,
                       (uint64_t)broker->options->max_frame_bytes, (uint64_t)broker->options->max_job_bytes, reterr);
}

/* Its turn comes when Redis has answered, or its time for that is over. */
static void wait_for_redis(struct broker *broker, struct transfer_in *in, uint64_t question)
{
    uint64_t until_us = broker->now_us + cache_deadline_us(broker->cache);
    in->question = question;
    if (until_us < broker->transfers.asked_until_us)
        broker->transfers.asked_until_us = until_us;
}

void transfer_answered(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value)
{
    struct transfer_in *in;
    TAILQ_FOREACH(in, &broker->transfers.waiting, in_waiting)
    {
        if (in->question == question)
            break;
    }
    if (!in)
        return;
    struct session *session = in->link->end->session;
    const uint8_t *meta = frame_meta(zmq_msg_data(&in->message.frames[0]));
    in->question = 0;
    if (hit && digest_first_answer(broker, session, &in->env, meta, &in->run, value))
        transfer_in_free(broker, in);
    transfer_in_open(broker, &session->transfers);
}

void transfer_asked_tick(struct broker *broker)
{
    uint64_t wait_us = cache_deadline_us(broker->cache), next_us = UINT64_MAX;
    struct session *any = NULL;
    struct transfer_in *in;
    TAILQ_FOREACH(in, &broker->transfers.waiting, in_waiting)
    {
        if (in->question == 0)
            continue;
        if (broker->now_us < in->since_us + wait_us) {
            next_us = in->since_us + wait_us < next_us ? in->since_us + wait_us : next_us;
            continue;
        }
        in->question = 0;
        any = in->link->end->session;
        cache_give_up(broker->cache, broker->now_us);
    }
    broker->transfers.asked_until_us = next_us;
    if (any)
        transfer_in_open(broker, &any->transfers);
}

void transfer_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message)
{
    struct bulk run;
    uint64_t after = 0, wait_us = 0;
    struct pen_error error = {.status = PEN_OK};
    struct transfer_in *known = transfer_in_find(session->transfers.link, env->job);
    if (known)
        transfer_in_free(broker, known); /* begun anew */
    enum pen_status status = message->count == 1
                                 ? read_job(broker, env, meta, &run, &after, &error)
                                 : pen_error_set(&error, PEN_ERR_CORRUPT, "raw frames behind an announcement of them");
    if (status == PEN_OK)
        status = submit_room(broker, session, zmq_msg_size(&message->frames[0]) + run.total, &wait_us, &error);
    uint64_t question = 0;
    enum cache_answer known_by_digest =
        status == PEN_OK ? digest_first_look(broker, session, env, meta, &run, &question) : CACHE_MISS;
    if (known_by_digest == CACHE_HIT)
        return;
    struct transfer_in *in = NULL;
    if (status == PEN_OK)
        status = transfer_in_announce(broker, transfer_link_of(broker, &session->transfers), env, &run, message, &in,
                                      &error);
    if (status != PEN_OK) {
        answer_refusal(broker, session, env, "", wait_us, &error);
        return;
    }
    in->after = after;
    if (known_by_digest == CACHE_ASKED)
        wait_for_redis(broker, in, question);
    else
        transfer_in_open(broker, &session->transfers);
}

bool transfer_cancel(struct broker *broker, struct session *session, struct job_id id)
{
    struct transfer_in *in = transfer_in_find(session->transfers.link, id);
    if (!in)
        return false;
    give_up(broker, in, PEN_ERR_CANCELLED, "the client cancelled the job");
    transfer_follow(broker, session);
    transfer_in_open(broker, &session->transfers);
    return true;
}

/* ---- chunks ---- */

/* Subtracts the time that has passed from the deadline; false: no time is left. */
static bool age_deadline(const struct broker *broker, const struct transfer_in *in, struct envelope *env)
{
    uint64_t waited_us = broker->now_us - in->since_us;
    if (env->deadline_us == 0)
        return true;
    if (env->deadline_us <= waited_us)
        return false;
    env->deadline_us -= waited_us;
    return true;
}

bool transfer_in_complete(struct broker *broker, struct transfer_in *in)
{
    char id[JOB_ID_TEXT_BYTES];
    struct envelope env = in->env;
    log_event(LOG_DEBUG, "transfer_in", "job=%s bytes=%" PRIu64, job_id_text(in->env.job, id), in->run.total);
    if (age_deadline(broker, in, &env)) {
        effect_post(&broker->effects, &in->here, EFFECT_PAYLOAD_HERE);
        return true;
    }
    give_up(broker, in, PEN_ERR_DEADLINE, "the deadline passed before the job's payload was here");
    return false;
}

void transfer_in_take(struct broker *broker, struct effect *effect, struct arrival *ret_arrival)
{
    struct transfer_in *in = effect_of(effect, struct transfer_in, here);
    struct transfer_end *end = in->link->end;
    *ret_arrival = (struct arrival){.session = end->session, .worker = end->worker, .env = in->env};
    if (!in->dropped) {
        age_deadline(broker, in, &ret_arrival->env);
        ret_arrival->message = in->message;
        ret_arrival->env.transfer = 0;
        in->message = (struct message){.count = 0};
        frame_set_transfer(zmq_msg_data(&ret_arrival->message.frames[0]), 0);
    }
    transfer_in_free(broker, in);
    if (end->session)
        quota_uncheck(end->session->identity);
}

void transfer_in_taken(struct broker *broker, const struct arrival *arrival)
{
    if (arrival->session)
        transfer_follow(broker, arrival->session);
    transfer_in_open(broker, arrival->session ? &arrival->session->transfers : &arrival->worker->transfers);
}

void transfer_in_chunk(struct broker *broker, struct transfer_link *link, struct message *message,
                       const struct envelope *env)
{
    struct bulk_piece piece;
    struct transfer_in *in = in_of_chunk(link, env);
    if (!in || !in->open)
        return; /* of a job that has ended meanwhile */
    if (message->count != 2 || !bulk_accept(&in->run, env->offset, zmq_msg_size(&message->frames[1]), &piece)) {
        transfer_upset(broker, link->end, "a chunk that is not the next one, or more than was granted");
        return;
    }
    memcpy((uint8_t *)zmq_msg_data(&in->message.frames[1 + piece.frame]) + piece.at, zmq_msg_data(&message->frames[1]),
           piece.bytes);
    urgency_make_way();
    in->moved_us = broker->now_us;
    if (!bulk_done(&in->run)) {
        if (bulk_grant(&in->run))
            transfer_tell(broker, link->end, in->env.job, in->run.number, in->run.granted, PEN_OK);
        return;
    }
    struct transfer_end *end = link->end;
    if (!transfer_block(broker, in) && !transfer_in_complete(broker, in) && end->session)
        transfer_follow(broker, end->session);
    transfer_in_open(broker, end);
}

void transfer_in_tick(struct broker *broker, struct transfer_end *end)
{
    struct transfer_in *in, *next;
    for (in = end->session && end->link ? TAILQ_FIRST(&end->link->ins) : NULL; in; in = next) {
        struct envelope env = in->env;
        next = TAILQ_NEXT(in, in_link);
        if (!age_deadline(broker, in, &env))
            give_up(broker, in, PEN_ERR_DEADLINE, "the deadline passed before the job's payload was here");
    }
    if (end->link && end->link->ins_blocked > 0)
        transfer_follow(broker, end->session);
}
