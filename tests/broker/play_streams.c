#include "play_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX    1024u
#define BROKERS_MAX 4u
#define TAKE_MAX    8u

struct play_job {
    struct job_id id;
    struct owner owner;
    char model[NOTE_MODEL_BYTES];
    struct shared_message *request, *reply;
    const struct streams *by;
    bool taken, cancelled;
    uint32_t attempts;
    uint64_t since_us, expires_us, renewed_us, turn;
};

struct streams {
    struct streams_options options;
    struct note_list out;
    char *models;
    uint32_t room;
};

static struct {
    uint64_t (*clock)(void);
    struct play_job jobs[JOBS_MAX];
    size_t count;
    uint64_t turns, runs;
    struct streams *brokers[BROKERS_MAX];
    enum play_mood mood;
} play;

static void put(struct streams *streams, struct note *note)
{
    TAILQ_INSERT_TAIL(&streams->out, note, in_box);
}

static void put_state(struct streams *streams)
{
    struct note *note = note_new(NOTE_STATE, (struct job_id){0, 0});
    note->up = play.mood != PLAY_DOWN;
    snprintf(note->text, sizeof note->text, note->up ? "appendfsync always: played" : "gone");
    put(streams, note);
}

static void ring(struct job_id id)
{
    for (size_t i = 0; i < BROKERS_MAX; i++) {
        if (play.brokers[i])
            put(play.brokers[i], note_new(NOTE_BELL, id));
    }
}

static struct play_job *find(struct job_id id)
{
    for (size_t i = 0; i < play.count; i++) {
        if (job_id_equal(play.jobs[i].id, id))
            return &play.jobs[i];
    }
    return NULL;
}

static void drop(struct play_job *job)
{
    shared_message_release(job->request);
    shared_message_release(job->reply);
    *job = play.jobs[--play.count];
}

static void sweep(void)
{
    for (size_t i = play.count; i-- > 0;) {
        if (play.jobs[i].expires_us <= play.clock()) {
            ring(play.jobs[i].id);
            drop(&play.jobs[i]);
        }
    }
}

void play_begin(uint64_t (*clock)(void))
{
    memset(&play, 0, sizeof play);
    play.clock = clock;
}

void play_end(void)
{
    while (play.count > 0)
        drop(&play.jobs[0]);
}

void play_mood(enum play_mood mood)
{
    play.mood = mood;
    for (size_t i = 0; i < BROKERS_MAX; i++) {
        if (play.brokers[i])
            put_state(play.brokers[i]);
    }
}

size_t play_jobs(void)
{
    sweep();
    return play.count;
}

enum play_state play_state(struct job_id id)
{
    sweep();
    const struct play_job *job = find(id);
    return !job ? PLAY_NONE : job->reply ? PLAY_DONE : PLAY_OPEN;
}

const struct shared_message *play_reply(struct job_id id)
{
    const struct play_job *job = find(id);
    return job ? job->reply : NULL;
}

uint64_t play_runs(void)
{
    return play.runs;
}

/* ---- the interface ---- */

enum pen_status streams_new(const struct streams_options *options, struct streams **ret_streams,
                            struct pen_error *reterr)
{
    (void)reterr;
    struct streams *streams = calloc(1, sizeof *streams);
    streams->options = *options;
    TAILQ_INIT(&streams->out);
    for (size_t i = 0; i < BROKERS_MAX; i++) {
        if (!play.brokers[i]) {
            play.brokers[i] = streams;
            break;
        }
    }
    put_state(streams);
    *ret_streams = streams;
    return PEN_OK;
}

void streams_free(struct streams *streams)
{
    for (size_t i = 0; i < BROKERS_MAX; i++) {
        if (play.brokers[i] == streams)
            play.brokers[i] = NULL;
    }
    while (!TAILQ_EMPTY(&streams->out)) {
        struct note *note = TAILQ_FIRST(&streams->out);
        TAILQ_REMOVE(&streams->out, note, in_box);
        note_free(note);
    }
    free(streams->models);
    free(streams);
}

int streams_descriptor(const struct streams *streams)
{
    (void)streams;
    return -1;
}

/* ---- what it is told ---- */

static uint64_t bytes_of(const char *key)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < play.count; i++) {
        const struct play_job *job = &play.jobs[i];
        bytes += job->request && (!key || strcmp(key, job->owner.key) == 0) ? shared_message_bytes(job->request) : 0;
        bytes += job->reply && !key ? shared_message_bytes(job->reply) : 0;
    }
    return bytes;
}

static enum note_answer on_accept(const struct streams *streams, struct note *note, struct play_job *job)
{
    size_t bytes = shared_message_bytes(note->shared);
    if (job)
        return strcmp(job->owner.tenant, note->owner.tenant) == 0 ? ANSWER_KNOWN : ANSWER_DENIED;
    if (play.count >= streams->options.jobs_max || play.count == JOBS_MAX ||
        bytes_of(NULL) + bytes > streams->options.bytes_max ||
        (*note->owner.key && note->quota_bytes && bytes_of(note->owner.key) + bytes > note->quota_bytes)) {
        snprintf(note->text, sizeof note->text, "a cap");
        return ANSWER_FULL;
    }
    job = &play.jobs[play.count++];
    *job = (struct play_job){.id = note->id,
                             .owner = note->owner,
                             .request = note->shared,
                             .since_us = play.clock(),
                             .expires_us = play.clock() + note->ttl_us,
                             .turn = ++play.turns};
    memcpy(job->model, note->model, sizeof job->model);
    note->shared = NULL;
    return ANSWER_OK;
}

static void finish(struct play_job *job, struct note *note)
{
    job->reply = note->shared;
    note->shared = NULL;
    shared_message_release(job->request);
    job->request = NULL;
    ring(job->id);
}

static enum note_answer on_done(const struct streams *streams, struct note *note, struct play_job *job)
{
    if (!job || job->cancelled)
        return ANSWER_NONE;
    if (job->reply)
        return job->by == streams ? ANSWER_OK : ANSWER_KNOWN;
    job->by = streams;
    finish(job, note);
    return ANSWER_OK;
}

static enum note_answer on_back(const struct streams *streams, struct note *note, struct play_job *job)
{
    (void)note;
    if (!job || job->reply || job->by != streams)
        return ANSWER_NONE;
    job->taken = false;
    job->turn = ++play.turns;
    return ANSWER_OK;
}

static enum note_answer on_fetch(const struct streams *streams, struct note *note, struct play_job *job)
{
    (void)streams;
    if (!job || strcmp(job->owner.tenant, note->owner.tenant) != 0)
        return ANSWER_NONE;
    note->attempts = job->attempts;
    note->age_us = play.clock() - job->since_us;
    note->ttl_us = job->expires_us - play.clock();
    if (job->reply) {
        note->shared = shared_message_share(job->reply);
        return ANSWER_OK;
    }
    snprintf(note->state, sizeof note->state, "%s", job->taken ? "running" : "waiting");
    return ANSWER_PENDING;
}

static enum note_answer on_cancel(const struct streams *streams, struct note *note, struct play_job *job)
{
    (void)streams;
    if (!job || (!note->admin && strcmp(job->owner.tenant, note->owner.tenant) != 0))
        return ANSWER_NONE;
    if (!note->admin && !owner_same(&job->owner, &note->owner))
        return ANSWER_DENIED;
    if (job->reply)
        return ANSWER_ENDED;
    job->cancelled = true;
    finish(job, note);
    return ANSWER_OK;
}

static enum note_answer on_renew(const struct streams *streams, struct note *note, struct play_job *unused)
{
    (void)unused;
    char *rest = note->list, *word;
    while ((word = strtok_r(rest, "\n", &rest)) != NULL) {
        struct job_id id;
        struct play_job *job = job_id_parse(word, &id) == 0 ? find(id) : NULL;
        if (job && job->taken && job->by == streams && !job->reply)
            job->renewed_us = play.clock();
        else
            put((struct streams *)(uintptr_t)streams, note_new(NOTE_LOST, id));
    }
    return ANSWER_OK;
}

void streams_send(struct streams *streams, struct note *note)
{
    static enum note_answer (*const verbs[])(const struct streams *, struct note *, struct play_job *) = {
        [NOTE_ACCEPT] = on_accept, [NOTE_DONE] = on_done,     [NOTE_BACK] = on_back,
        [NOTE_FETCH] = on_fetch,   [NOTE_CANCEL] = on_cancel, [NOTE_RENEW] = on_renew};
    if (note->kind == NOTE_WANT) {
        if (note->list) {
            free(streams->models);
            streams->models = note->list;
            note->list = NULL;
        }
        streams->room = note->room;
        note_free(note);
        return;
    }
    sweep();
    note->answer = play.mood == PLAY_DOWN ? ANSWER_DOWN : verbs[note->kind](streams, note, find(note->id));
    if (play.mood == PLAY_DEAF)
        note->answer = ANSWER_UNKNOWN;
    put(streams, note);
}

/* ---- what is taken ---- */

static bool listed(const char *models, const char *model)
{
    size_t length = strlen(model);
    for (const char *at = models; at && *at; at = strchr(at, '\n') + 1) {
        if (strncmp(at, model, length) == 0 && at[length] == '\n')
            return true;
    }
    return false;
}

/* The one that waits longest, left ones too. */
static struct play_job *next_job(const struct streams *streams)
{
    struct play_job *best = NULL;
    for (size_t i = 0; i < play.count; i++) {
        struct play_job *job = &play.jobs[i];
        bool left = job->taken && play.clock() - job->renewed_us >= streams->options.lease_us;
        if (!job->reply && (!job->taken || left) && listed(streams->models, job->model) &&
            (!best || job->turn < best->turn))
            best = job;
    }
    return best;
}

static void take(struct streams *streams)
{
    struct play_job *job;
    for (uint32_t i = 0; i < TAKE_MAX && streams->room > 0 && (job = next_job(streams)) != NULL; i++) {
        struct note *note = note_new(NOTE_TAKEN, job->id);
        job->taken = true;
        job->by = streams;
        job->renewed_us = play.clock();
        note->owner = job->owner;
        note->attempts = ++job->attempts;
        note->ttl_us = job->expires_us - play.clock();
        note->shared = shared_message_share(job->request);
        play.runs++;
        streams->room--;
        put(streams, note);
    }
}

struct note *streams_receive(struct streams *streams)
{
    if (TAILQ_EMPTY(&streams->out) && play.mood == PLAY_UP) {
        sweep();
        take(streams);
    }
    struct note *note = TAILQ_FIRST(&streams->out);
    if (note)
        TAILQ_REMOVE(&streams->out, note, in_box);
    return note;
}
