#include "detached_shared_internal.h"

#include <stdio.h>

#include "answer.h"
#include "send.h"
#include "detached_progress.h"
#include "answer_send.h"

#define ASK_AGAIN_US  5000000u
#define ASK_AGAIN_MAX 256u

void shared_refuse(struct broker *broker, struct job_id id, enum pen_status status, const char *text)
{
    struct session *client = session_find(&broker->sessions, id.client);
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = id;
    if (client)
        answer_refuse(broker, client, &env, status, text);
}

static void ask(struct broker *broker, struct watch *watch)
{
    struct watches *watches = &broker->detached->watches;
    struct note *note = note_new(NOTE_FETCH, watch->wanted);
    watch->look_us = broker->now_us;
    TAILQ_REMOVE(&watches->all, watch, in_all);
    TAILQ_INSERT_TAIL(&watches->all, watch, in_all);
    if (!note)
        return; /* again at a later look */
    note->asker = watch->own;
    snprintf(note->owner.tenant, sizeof note->owner.tenant, "%s", watch->tenant->name);
    streams_send(broker->detached->shared->streams, note);
}

/* A message of the bell may be lost with a connection, so jobs that clients have waited for long are asked for
   again, some at each look. */
static void ask_again(struct broker *broker, uint64_t older_us, uint32_t most)
{
    struct watches *watches = &broker->detached->watches;
    struct watch *watch;
    while (most-- > 0 && (watch = TAILQ_FIRST(&watches->all)) != NULL) {
        if (broker->now_us - watch->look_us < older_us)
            return;
        if (session_find(&broker->sessions, watch->own.client))
            ask(broker, watch);
        else
            watch_free(watches, watch);
    }
}

void shared_ask_all(struct broker *broker)
{
    ask_again(broker, 0, broker->detached->watches.count);
}

void shared_ask_again(struct broker *broker)
{
    ask_again(broker, ASK_AGAIN_US, ASK_AGAIN_MAX);
}

void shared_ask_watchers(struct broker *broker, struct job_id id)
{
    struct watches *watches = &broker->detached->watches;
    for (struct watch *watch = watch_first(watches, id); watch; watch = watch_next(watches, watch))
        ask(broker, watch);
}

void shared_fetch(struct broker *broker, struct session *session, const struct envelope *env, struct job_id wanted,
                  enum watch_for what)
{
    if (!broker->detached->shared->up) {
        answer_refuse(broker, session, env, PEN_ERR_UNAVAILABLE,
                      "Redis, which keeps the detached jobs, is gone; try again later");
        return;
    }
    struct watch *watch = watch_new(&broker->detached->watches, env->job, wanted, session->tenant, what);
    if (watch)
        ask(broker, watch);
    else
        answer_refuse(broker, session, env, PEN_ERR_BUSY, "as many clients as may wait for detached jobs");
}

void shared_answer_fetch(struct broker *broker, struct note *note)
{
    struct watch *watch = watch_find(&broker->detached->watches, note->asker);
    struct session *client = watch ? session_find(&broker->sessions, note->asker.client) : NULL;
    if (note->broken && (note->shared = answer_message_error(note->id, PEN_ERR_INTERNAL, note->text)) != NULL)
        note->answer = ANSWER_OK; /* this result is broken for good: clients must not wait for ever */
    bool gone = note->answer == ANSWER_DOWN || note->answer == ANSWER_UNKNOWN || note->answer == ANSWER_ERROR;
    if (!watch)
        return;
    watch->known |= note->answer == ANSWER_PENDING;
    if (client && watch->what == WATCH_REPLY && watch->known && (gone || note->answer == ANSWER_PENDING))
        return; /* it waits for its bell, or for Redis */
    struct progress progress = {
        .state = note->state, .attempts = note->attempts, .age_us = note->age_us, .left_us = note->ttl_us};
    if (client && note->answer == ANSWER_PENDING)
        answer_progress(broker, client, note->asker, &progress);
    else if (client && note->answer == ANSWER_OK && watch->what == WATCH_STATE)
        answer_ended(broker, client, note->asker, note->shared, progress);
    else if (client && note->answer == ANSWER_OK)
        answer_stored(broker, client, note->asker, note->shared);
    else if (client && gone)
        shared_refuse(broker, note->asker, PEN_ERR_UNAVAILABLE,
                      "Redis, which keeps the detached jobs, is gone; try again later");
    else if (client)
        shared_refuse(broker, note->asker, PEN_ERR_NOT_FOUND,
                      "no detached job of that id is here: it never came, or is too old");
    watch_free(&broker->detached->watches, watch);
}

enum pen_status shared_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                              const struct owner *asker, bool *ret_later, struct pen_error *reterr)
{
    struct note *note = note_new(NOTE_CANCEL, id);
    *ret_later = false;
    if (!note || !(note->shared = answer_message_error(id, PEN_ERR_CANCELLED, "the job was cancelled by its id"))) {
        note_free(note);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to cancel the job");
    }
    note->admin = !asker;
    if (asker)
        note->owner = *asker;
    note->asker = (struct job_id){.client = session->uuid, .sequence = 0};
    note->serial = serial;
    *ret_later = true;
    streams_send(broker->detached->shared->streams, note);
    return PEN_OK;
}

void shared_answer_cancel(struct broker *broker, const struct note *note)
{
    static const struct {
        enum pen_status status;
        const char *text;
    } answers[] = {
        [ANSWER_DOWN] = {PEN_ERR_UNAVAILABLE, "Redis, which keeps the detached jobs, is gone; try again later"},
        [ANSWER_UNKNOWN] = {PEN_ERR_UNAVAILABLE, "Redis went before it answered; try again later"},
        [ANSWER_OK] = {PEN_OK, ""},
        [ANSWER_NONE] = {PEN_ERR_NOT_FOUND, "no job of that id is queued or running: it was answered, or never came"},
        [ANSWER_ENDED] = {PEN_ERR_NOT_FOUND, "no job of that id is queued or running: it was answered, or never came"},
        [ANSWER_DENIED] = {PEN_ERR_DENIED,
                           "the job is not this key's; its secret or the role admin is needed to cancel it"},
        [ANSWER_ERROR] = {PEN_ERR_INTERNAL, "Redis refused to cancel the job; its log says why"},
    };
    struct session *client = session_find(&broker->sessions, note->asker.client);
    if (client)
        send_control_reply(broker, client, note->serial, answers[note->answer].status, answers[note->answer].text);
}
