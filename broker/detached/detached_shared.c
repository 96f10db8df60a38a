#include "detached_shared_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "ensemble_models.h"
#include "journal.h"
#include "keyring.h"
#include "logline.h"
#include "streams.h"
#include "answer_send.h"

#define LOOK_US         500000u
#define HELD_MAX        1024u /* jobs taken and not done */
#define HELD_PER_SLOT   8u    /* per slot of the workers; a job that is taken early cannot be taken by another broker */
#define HOLD_US         2000000u /* a taken job that cannot run here is given back after this time */
#define ACCEPTING_BYTES (64u * 1024u * 1024u)
#define MODELS_TOLD_MAX 256u

/* ---- life ---- */

static void fill_options(const struct broker *broker, struct streams_options *ret_options)
{
    const struct options *options = broker->options;
    *ret_options = (struct streams_options){.place = options->detached_redis.redis,
                                            .lease_us = (uint64_t)options->detached_lease_us,
                                            .jobs_max = DETACHED_JOBS_MAX,
                                            .bytes_max = (uint64_t)options->detached_bytes,
                                            .broker_uuid = broker->uuid};
    snprintf(ret_options->namespace, sizeof ret_options->namespace, "%.127s", options->cache.namespace);
}

static enum pen_status shared_open(struct broker *broker, struct pen_error *reterr)
{
    struct streams_options options;
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for detached jobs in Redis");
    fill_options(broker, &options);
    shared->lease_us = options.lease_us;
    shared->models_changed = true;
    snprintf(shared->text, sizeof shared->text, "connecting");
    enum pen_status status = streams_new(&options, &shared->streams, reterr);
    if (status != PEN_OK) {
        free(shared);
        return status;
    }
    broker->detached->shared = shared;
    return PEN_OK;
}

int detached_redis_descriptor(const struct detached_store *detached)
{
    return detached && detached->shared ? streams_descriptor(detached->shared->streams) : -1;
}

enum pen_status detached_open_redis(struct broker *broker, struct pen_error *reterr)
{
    if (!broker->detached)
        broker->detached = detached_new();
    if (!broker->detached)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for detached jobs");
    return shared_open(broker, reterr);
}

/* ---- handing over ---- */

static bool send_note(struct shared *shared, enum note_kind kind, const struct entry *entry,
                      struct shared_message *message)
{
    struct note *note = note_new(kind, entry->id);
    if (note && message && !(note->shared = shared_message_share(message))) {
        note_free(note);
        return false;
    }
    if (note)
        streams_send(shared->streams, note);
    return note != NULL;
}

enum pen_status shared_accept(struct broker *broker, struct entry *entry, const char *model, struct pen_error *reterr)
{
    struct shared *shared = broker->detached->shared;
    size_t bytes = shared_message_bytes(entry->request);
    if (!shared->up)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                             "Redis, which keeps the detached jobs, is gone (%.120s); the job was not accepted",
                             shared->text);
    if (shared->accepting_bytes > 0 && shared->accepting_bytes + bytes > ACCEPTING_BYTES)
        return pen_error_set(reterr, PEN_ERR_BUSY, "Redis does not keep up with the detached jobs; try again later");
    struct note *note = note_new(NOTE_ACCEPT, entry->id);
    if (!note || !(note->shared = shared_message_share(entry->request))) {
        note_free(note);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the job");
    }
    uint64_t now_us = broker->detached->wall();
    note->owner = entry->owner;
    note->ttl_us = entry->expires_us > now_us ? entry->expires_us - now_us : 0;
    note->quota_bytes = entry->identity ? entry->identity->bytes_max : 0;
    snprintf(note->model, sizeof note->model, "%s", model);
    entry->shared = true;
    shared->accepting_bytes += bytes;
    streams_send(shared->streams, note);
    return PEN_OK;
}

/* Redis was told nothing, so the journal may keep the job instead. */
static bool keep_instead(struct broker *broker, struct entry *entry)
{
    struct pen_error error = {.status = PEN_OK};
    return broker->detached->journal && detached_keep(broker, entry, &error) == PEN_OK;
}

static void on_accept(struct broker *broker, struct entry *entry, const struct note *note)
{
    struct shared *shared = broker->detached->shared;
    static const struct {
        enum pen_status status;
        const char *text;
    } refusals[] = {
        [ANSWER_DOWN] = {PEN_ERR_UNAVAILABLE,
                         "Redis, which keeps the detached jobs, is gone; the job was not accepted"},
        [ANSWER_UNKNOWN] = {PEN_ERR_UNAVAILABLE,
                            "Redis went before it answered: the job may have been accepted; send it again "
                            "under its id, or fetch it"},
        [ANSWER_DENIED] = {PEN_ERR_DENIED, "a detached job of that id belongs to another tenant"},
        [ANSWER_FULL] = {PEN_ERR_BUSY, NULL},
        [ANSWER_LARGE] = {PEN_ERR_TOO_LARGE, NULL},
        [ANSWER_ERROR] = {PEN_ERR_UNAVAILABLE, NULL},
    };
    if (!entry || entry->state != ENTRY_ACCEPTING || !entry->shared)
        return;
    shared->accepting_bytes -= shared_message_bytes(entry->request);
    if (note->answer == ANSWER_DOWN && keep_instead(broker, entry))
        return;
    if (note->answer == ANSWER_OK || note->answer == ANSWER_KNOWN) {
        struct session *client = session_find(&broker->sessions, entry->id.client);
        if (client)
            answer_accepted(broker, client, entry->id);
    } else {
        const char *text = refusals[note->answer].text;
        shared_refuse(broker, entry->id, refusals[note->answer].status, text ? text : note->text);
    }
    entry_free(broker->detached, entry); /* the broker that takes it makes an entry of its own */
}

/* ---- what was taken ---- */

/* At the broker's end: gives the jobs that have not run back at once, before their lease is over. */
void shared_close(struct detached_store *detached)
{
    struct shared *shared = detached->shared;
    const struct entry *entry;
    if (!shared)
        return;
    TAILQ_FOREACH(entry, &detached->lists[ENTRY_WAITING], in_state)
    {
        if (entry->shared)
            send_note(shared, NOTE_BACK, entry, NULL);
    }
    streams_free(shared->streams);
    free(shared);
    detached->shared = NULL;
}

static void let_go(struct broker *broker, struct entry *entry)
{
    broker->detached->shared->held--;
    entry_free(broker->detached, entry);
}

static void give_back(struct broker *broker, struct entry *entry)
{
    send_note(broker->detached->shared, NOTE_BACK, entry, NULL); /* without memory: its lease ends by itself */
    let_go(broker, entry);
}

static void on_taken(struct broker *broker, struct note *note)
{
    struct detached_store *detached = broker->detached;
    const struct tenant *tenant = NULL;
    if (entry_find(detached, note->id))
        return; /* claimed from ourselves: its lease ended while Redis was away */
    struct entry *entry = tenant_intern(&broker->sessions, note->owner.tenant, &tenant, NULL) == PEN_OK
                              ? entry_new(detached, note->id, tenant, detached->wall() + note->ttl_us, ENTRY_WAITING)
                              : NULL;
    if (!entry)
        return; /* its lease ends by itself, and another broker takes it */
    entry->shared = true;
    entry->since_us = broker->now_us;
    entry->owner = note->owner;
    entry->request = note->shared;
    note->shared = NULL;
    detached->shared->held++;
    broker->stats.detached_taken++;
    broker->stats.detached_again += note->attempts > 1;
    if (!entry->request) {
        struct shared_message *reply =
            answer_message_error(entry->id, PEN_ERR_INTERNAL, "the job in Redis is broken and cannot be run");
        if (reply)
            detached_settle(broker, entry, reply, PEN_ERR_INTERNAL);
    } else if (broker->draining) {
        give_back(broker, entry);
    } else {
        detached_run(broker, entry);
    }
}

/* Ended by another client, or taken by another broker: running it here is of no use. */
static void on_lost(struct broker *broker, struct job_id id)
{
    struct entry *entry = entry_find(broker->detached, id);
    if (!entry || !entry->shared || entry->state == ENTRY_ACCEPTING || entry->state == ENTRY_DONE)
        return;
    struct job *job = entry->state == ENTRY_RUNNING ? jobs_find(&broker->jobs, id) : NULL;
    entry_move(broker->detached, entry, ENTRY_DONE, broker->now_us); /* so that its end below changes nothing */
    if (job && job->state != JOB_DONE)
        answer_error(broker, job, PEN_ERR_CANCELLED, "the detached job was cancelled, or another broker has it");
    let_go(broker, entry);
}

void shared_expire(struct broker *broker, struct entry *entry)
{
    on_lost(broker, entry->id);
}

void shared_settle(struct broker *broker, struct entry *entry)
{
    entry_drop_request(entry);
    if (broker->detached->shared->up)
        send_note(broker->detached->shared, NOTE_DONE, entry, entry->reply); /* otherwise sent when Redis is back */
}

static void on_done(struct broker *broker, struct entry *entry, const struct note *note)
{
    if (!entry || !entry->shared || entry->state != ENTRY_DONE || note->answer == ANSWER_DOWN ||
        note->answer == ANSWER_UNKNOWN || note->answer == ANSWER_ERROR)
        return; /* again at the next look */
    broker->stats.detached_duplicates += note->answer == ANSWER_KNOWN;
    let_go(broker, entry);
}

/* ---- timers ---- */

/* Reconnected: sends what could not be sent, and renews the held jobs before another broker claims them. */
static void on_state(struct broker *broker, const struct note *note)
{
    struct shared *shared = broker->detached->shared;
    bool changed = note->up != shared->up || strcmp(note->text, shared->text) != 0;
    shared->up = note->up;
    snprintf(shared->text, sizeof shared->text, "%s", note->text);
    if (changed && note->up)
        log_event(strstr(note->text, "appendfsync always") && !strstr(note->text, "may lose") ? LOG_INFO : LOG_WARN,
                  "detached_up", "kind=redis durability=%s", note->text);
    else if (changed)
        log_event(LOG_WARN, "detached_down", "kind=redis reason=%s", note->text);
    shared->look_us = shared->renew_us = broker->now_us;
    shared->models_changed = true;
    if (note->up)
        shared_ask_all(broker);
}

static void on_bell(struct broker *broker, struct job_id id)
{
    shared_ask_watchers(broker, id);
    on_lost(broker, id);
}

static void on_note(struct broker *broker, struct note *note)
{
    struct entry *entry = entry_find(broker->detached, note->id);
    switch (note->kind) {
    case NOTE_ACCEPT:
        on_accept(broker, entry, note);
        break;
    case NOTE_DONE:
        on_done(broker, entry, note);
        break;
    case NOTE_FETCH:
        shared_answer_fetch(broker, note);
        break;
    case NOTE_CANCEL:
        shared_answer_cancel(broker, note);
        break;
    case NOTE_TAKEN:
        on_taken(broker, note);
        break;
    case NOTE_LOST:
        on_lost(broker, note->id);
        break;
    case NOTE_BELL:
        on_bell(broker, note->id);
        break;
    case NOTE_STATE:
        on_state(broker, note);
        break;
    default:
        break; /* what was given back or renewed */
    }
    note_free(note);
}

void shared_look(struct broker *broker)
{
    if (broker->detached->shared)
        broker->detached->shared->models_changed = true;
}

static bool runnable(const struct broker *broker, const struct model *model)
{
    return model_served(model, NULL) || ensemble_served(&broker->models, &broker->labels, model, NULL);
}

/* Names of the models that some worker may be given, and of ensembles whose steps some workers may be given; NULL
   without memory. */
static char *runnable_models(const struct broker *broker)
{
    const struct model *model;
    size_t used = 0, count = 0;
    char *list = calloc(MODELS_TOLD_MAX, NOTE_MODEL_BYTES + 1), name[NOTE_MODEL_BYTES + 1];
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        if (!list || !runnable(broker, model) || count == MODELS_TOLD_MAX || strlen(model->name) >= NOTE_MODEL_BYTES ||
            strchr(model->name, '\n'))
            continue;
        snprintf(name, sizeof name, "%.255s\n", model->name);
        const char *there = strstr(list, name);
        if (there && (there == list || there[-1] == '\n'))
            continue; /* another version of it */
        memcpy(list + used, name, strlen(name));
        used += strlen(name);
        count++;
    }
    return list;
}

static uint32_t room_of(const struct broker *broker)
{
    const struct worker *worker;
    uint64_t room = 0;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    room += worker->state == WORKER_READY ? worker->slots * HELD_PER_SLOT : 0;
    uint32_t held = broker->detached->shared->held;
    room = room < HELD_MAX ? room : HELD_MAX;
    return broker->draining || room < held ? 0 : (uint32_t)room - held;
}

static void tell_want(struct broker *broker)
{
    struct shared *shared = broker->detached->shared;
    uint32_t room = room_of(broker);
    if (!shared->models_changed && room == shared->room_told)
        return;
    struct note *note = note_new(NOTE_WANT, (struct job_id){0, 0});
    if (!note)
        return;
    if (shared->models_changed)
        note->list = runnable_models(broker);
    note->room = shared->room_told = room;
    shared->models_changed = false;
    streams_send(shared->streams, note);
}

static void renew(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    struct shared *shared = detached->shared;
    const struct entry *entry;
    struct note *note = shared->held ? note_new(NOTE_RENEW, (struct job_id){0, 0}) : NULL;
    size_t used = 0, room = (shared->held + 1u) * (JOB_ID_TEXT_BYTES + 1u);
    shared->renew_us = broker->now_us + shared->lease_us / 3;
    if (!note || !(note->list = calloc(1, room))) {
        note_free(note);
        return;
    }
    for (int state = ENTRY_WAITING; state <= ENTRY_DONE; state++) {
        TAILQ_FOREACH(entry, &detached->lists[state], in_state)
        {
            char id[JOB_ID_TEXT_BYTES];
            if (entry->shared && used + JOB_ID_TEXT_BYTES + 1 < room)
                used += (size_t)snprintf(note->list + used, room - used, "%s\n", job_id_text(entry->id, id));
        }
    }
    streams_send(shared->streams, note);
}

/* Jobs that wait here in vain are given back, to run elsewhere; replies that Redis has not taken are sent again. */
static void look(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    struct shared *shared = detached->shared;
    struct entry *entry, *next;
    shared->look_us = broker->now_us + LOOK_US;
    shared->models_changed = true;
    for (entry = TAILQ_FIRST(&detached->lists[ENTRY_WAITING]); entry && shared->up; entry = next) {
        next = TAILQ_NEXT(entry, in_state);
        if (entry->shared && (broker->draining || broker->now_us - entry->since_us >= HOLD_US))
            give_back(broker, entry);
    }
    TAILQ_FOREACH(entry, &detached->lists[ENTRY_DONE], in_state)
    {
        if (entry->shared && shared->up && broker->now_us - entry->since_us >= LOOK_US)
            send_note(shared, NOTE_DONE, entry, entry->reply);
    }
    shared_ask_again(broker);
}

void shared_tick(struct broker *broker)
{
    struct shared *shared = broker->detached->shared;
    struct note *note;
    if (!shared)
        return;
    while ((note = streams_receive(shared->streams)) != NULL)
        on_note(broker, note);
    if (broker->now_us >= shared->look_us)
        look(broker);
    if (shared->held > 0 && broker->now_us >= shared->renew_us)
        renew(broker);
    tell_want(broker);
}
