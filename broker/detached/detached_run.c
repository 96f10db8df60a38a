/* detached_run.c - detached jobs as jobs of the broker: how they start, wait, end, and are cancelled. */
#include "detached_entry.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "explain.h"
#include "metrics_record.h"
#include "detached_shared.h"
#include "journal.h"
#include "logline.h"
#include "submit.h"
#include "answer_send.h"

/* The tenant's session that the broker made itself; it is never connected and never over. */
static struct session *home_of(struct broker *broker, const struct tenant *tenant)
{
    uint64_t uuid = DETACHED_UUID_FIRST + tenant->number;
    struct session *home = session_find(&broker->sessions, uuid);
    if (home || !(home = session_new(&broker->sessions, uuid)))
        return home;
    home->detached = true;
    home->owner = OWNER_DETACHED;
    session_belongs(home, tenant);
    snprintf(home->name, sizeof home->name, "detached");
    return home;
}

/* The request as the message that a client would send; its frames are shared. */
static bool message_of(const struct entry *entry, struct message *message)
{
    for (uint32_t i = 0; i < entry->request->count; i++) {
        zmq_msg_t frame;
        shared_message_frame(entry->request, i, &frame);
        if (message_add(message, &frame) != PEN_OK)
            return false;
    }
    return true;
}

/* A refusal for good ends the entry; after one that time may cure it waits. */
static void judge(struct broker *broker, struct entry *entry, enum pen_status status, const struct pen_error *error)
{
    if (status == PEN_OK && !jobs_find(&broker->jobs, entry->id))
        return; /* no memory to queue it, so the job has ended at once: the entry waits on */
    if (status == PEN_OK) {
        entry->attempts++;
        entry_move(broker->detached, entry, ENTRY_RUNNING, broker->now_us);
        return;
    }
    bool curable = pen_status_retryable(status) || status == PEN_ERR_NOT_FOUND;
    if (curable && status != PEN_ERR_WORKER_LOST) /* from the quarantine: an identical job has ended workers */
        return;
    struct shared_message *reply = answer_message_error(entry->id, status, error->text);
    if (reply)
        detached_settle(broker, entry, reply, status);
}

void detached_run(struct broker *broker, struct entry *entry)
{
    struct message message = {.count = 0};
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error = {.status = PEN_OK};
    struct session *home = home_of(broker, entry->tenant);
    if (home && message_of(entry, &message)) {
        zmq_msg_t *header = &message.frames[0];
        enum pen_status status = envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, &error);
        if (status == PEN_OK && !job_id_equal(env.job, entry->id)) /* kept under another job's id */
            status =
                pen_error_set(&error, PEN_ERR_INTERNAL, "what is kept under this id is another job; it was not run");
        if (status == PEN_OK) {
            env.deadline_us = 0;
            env.flags = (uint16_t)((env.flags & ~FRAME_FLAG_DETACHED) | FRAME_FLAG_NO_CACHE);
            status = submit_try(broker, home, &env, meta, &message, &error);
        }
        judge(broker, entry, status, &error);
    }
    message_fini(&message);
}

void detached_start(struct broker *broker)
{
    struct entry *entry, *next;
    if (!broker->detached || broker->draining)
        return;
    shared_look(broker);
    for (entry = TAILQ_FIRST(&broker->detached->lists[ENTRY_WAITING]); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_state);
        detached_run(broker, entry);
    }
}

bool detached_worker_came(struct broker *broker, struct effect *effect)
{
    (void)effect;
    detached_start(broker);
    return true;
}

void detached_settle(struct broker *broker, struct entry *entry, struct shared_message *reply, enum pen_status status)
{
    struct pen_error error = {.status = PEN_OK};
    entry->reply = reply;
    entry->status = status;
    entry_move(broker->detached, entry, ENTRY_DONE, broker->now_us);
    if (entry->shared) {
        shared_settle(broker, entry);
        return; /* clients are told when Redis has it: another broker's result may have come first */
    }
    if (detached_record(broker->detached, entry, JOURNAL_DONE, &error) != PEN_OK)
        detached_unwritten(broker->detached, entry, true);
    if (entry->unwritten)
        log_event(LOG_WARN, "result_not_in_journal", "reason=%s",
                  error.text); /* the result stays in memory until the broker ends; after that the job runs again */
    entry_drop_request(entry);
    detached_tell(broker, entry);
}

static void take_reply(struct broker *broker, struct job_id id, struct shared_message *reply, enum pen_status status)
{
    struct entry *entry = broker->detached ? entry_find(broker->detached, id) : NULL;
    bool running = entry && entry->state == ENTRY_RUNNING;
    if (running && reply && status != PEN_ERR_UNAVAILABLE) {
        detached_settle(broker, entry, reply, status);
        return;
    }
    if (running) /* nobody could run it, or the broker stops: it runs later, perhaps on the next broker */
        entry_move(broker->detached, entry, ENTRY_WAITING, broker->now_us);
    shared_message_release(reply);
}

/* The end of a detached job's run; nobody is told when it will run again. */
static void detached_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                           const struct ending *ending)
{
    struct job_id id = job->id;
    record_end(broker, job, status, reply ? shared_message_bytes(reply) : 0, ending);
    if (status != PEN_ERR_UNAVAILABLE)
        explain_end(broker, job, status, ending);
    answer_retire(broker, job, status);
    session_remove(job->session, job);
    jobs_free(&broker->jobs, job);
    take_reply(broker, id, reply, status);
}

const struct job_owner detached_owner = {.name = "detached", .ended = detached_ended};

bool detached_owned(const struct broker *broker, struct job_id id, const struct owner *asker)
{
    const struct entry *entry = broker->detached ? entry_find(broker->detached, id) : NULL;
    return entry && owner_same(&entry->owner, asker);
}

enum pen_status detached_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                                const struct owner *asker, bool *ret_later, struct pen_error *reterr)
{
    struct entry *entry = broker->detached ? entry_find(broker->detached, id) : NULL;
    *ret_later = false;
    if (broker->detached && broker->detached->shared && (!entry || entry->shared)) {
        *ret_later = true;
        return shared_cancel(broker, session, serial, id, asker, ret_later, reterr);
    }
    if (!entry || entry->state != ENTRY_WAITING) /* a running one is found among the jobs */
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "no job of that id is queued or running: it was answered, or never came");
    if (asker && !owner_same(&entry->owner, asker))
        return pen_error_set(reterr, PEN_ERR_DENIED,
                             "the job is not this key's; its secret or the role admin is needed to cancel it");
    struct shared_message *reply = answer_message_error(id, PEN_ERR_CANCELLED, "the job was cancelled by its id");
    if (!reply)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to cancel the job");
    detached_settle(broker, entry, reply, PEN_ERR_CANCELLED);
    return PEN_OK;
}
