#include "sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "sequence_internal.h"

void sequence_bind_version(const struct broker *broker, const struct session *session, const struct envelope *env,
                           Penstock__JobMeta *meta)
{
    uint64_t id = sequence_id_of(env, meta);
    const struct sequence *s = id && !(env->flags & FRAME_FLAG_SEQUENCE_START)
                                   ? sequence_find(broker->sequences, session->uuid, id, meta->model)
                                   : NULL;
    if (!s || s->ended)
        return;
    meta->version = s->version;
    meta->version_label = (char *)(uintptr_t) ""; /* the version was chosen by label when the sequence began */
}

static enum pen_status check_room(struct sequences *sequences, const struct session *session, struct pen_error *reterr)
{
    uint32_t tenant = session->tenant->number;
    if (session->sequences >= SEQUENCES_PER_SESSION)
        return pen_error_set(reterr, PEN_ERR_BUSY, "this client has %u sequences open, the limit; end some",
                             SEQUENCES_PER_SESSION);
    if (tenant != 0 && sequences->by_tenant[tenant] >= SEQUENCES_PER_TENANT)
        return pen_error_set(reterr, PEN_ERR_BUSY, "tenant '%s' has %u sequences open, the limit; end some",
                             session->tenant->name, SEQUENCES_PER_TENANT);
    if (sequences->open >= SEQUENCES_MAX)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u sequences are open, the broker's limit; try again later",
                             SEQUENCES_MAX);
    if (sequences->count >= SEQUENCES_MAX)
        sequence_forget(sequences, TAILQ_FIRST(&sequences->ended));
    return PEN_OK;
}

static enum pen_status begin(struct broker *broker, struct session *session, uint64_t id, const struct model *model,
                             uint64_t job, struct pen_error *reterr)
{
    struct sequences *sequences = broker->sequences;
    enum pen_status status = check_room(sequences, session, reterr);
    if (status != PEN_OK)
        return status;
    struct sequence *s = calloc(1, sizeof *s);
    if (!s || !(s->model = strdup(model->name))) {
        free(s);
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker has no memory for another sequence; try again later");
    }
    s->session = session;
    s->tenant = session->tenant->number;
    s->client = session->uuid;
    s->id = id;
    s->version = model->version;
    s->idle_us = model->sequence_idle_us;
    s->first_job = s->last_job = job;
    TAILQ_INIT(&s->waiting);
    table_insert(&sequences->by_key, &s->by_key, table_hash(&sequences->by_key, s->client, s->id));
    TAILQ_INSERT_TAIL(&sequences->all, s, in_all);
    sequences->count++;
    sequences->open++;
    session->sequences++;
    sequences->by_tenant[s->tenant]++;
    PEN_ASSERT(sequences->open <= sequences->count && session->sequences <= sequences->open,
               "a session's open sequences are some of all open ones, and those some of all");
    sequence_due_set(broker, s, s->idle_us);
    return PEN_OK;
}

static enum pen_status check_place(const struct model *model, uint64_t id, const struct envelope *env,
                                   struct pen_error *reterr)
{
    if (model->sequence_idle_us == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "model '%s' keeps no state between jobs (sequence_batching), so its jobs name no sequence",
                             model->name);
    if (id == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "model '%s' keeps state between jobs: name a sequence (sequence_id; penstock submit "
                             "--sequence), and begin it with its first job",
                             model->name);
    if (env->flags & FRAME_FLAG_DETACHED)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a detached job belongs to no sequence");
    return PEN_OK;
}

/* Jobs come in the order of their numbers. So a predecessor that is not the newest job here was never received, or
   was refused. */
static enum pen_status check_predecessor(struct broker *broker, struct sequence *sequence, uint64_t job, uint64_t after,
                                         struct pen_error *reterr)
{
    char why[SEQUENCE_REASON_BYTES];
    if (after == 0 || after == sequence->last_job)
        return PEN_OK;
    snprintf(why, sizeof why, "job %" PRIu64 " follows job %" PRIu64 ", and the newest that ran here is job %" PRIu64,
             job, after, sequence->last_job);
    sequence_close(broker, sequence, PEN_ERR_CANCELLED, why);
    return pen_error_set(reterr, sequence->status, "%s; begin it again", sequence->reason);
}

enum pen_status sequence_admit(struct broker *broker, struct session *session, const struct envelope *env,
                               const Penstock__JobMeta *meta, const struct admission *admission,
                               struct pen_error *reterr)
{
    const struct model *model = admission->model;
    uint64_t id = sequence_id_of(env, meta), job = env->job.sequence;
    /* Before version 1.1 a sequence_id meant nothing: without the flags, which are younger, it still does for a model without state. */
    if (model->sequence_idle_us == 0 &&
        (id == 0 || !(env->flags & (FRAME_FLAG_SEQUENCE_START | FRAME_FLAG_SEQUENCE_END))))
        return PEN_OK;
    enum pen_status status = check_place(model, id, env, reterr);
    if (status == PEN_OK && session->detached)
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a detached job belongs to no sequence");
    if (status != PEN_OK)
        return status;
    struct sequence *s = sequence_find(broker->sequences, session->uuid, id, model->name);
    if (s && job <= s->last_job)
        return pen_error_set(reterr, PEN_ERR_INVALID, "a later job of sequence %" PRIu64 " came before this one", id);
    if (env->flags & FRAME_FLAG_SEQUENCE_START) {
        if (s) {
            sequence_close(broker, s, PEN_ERR_CANCELLED, "it was begun anew");
            sequence_forget(broker->sequences, s);
        }
        return begin(broker, session, id, model, job, reterr);
    }
    if (!s)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "sequence %" PRIu64 " is not open here: begin it with the start flag (after a restart of "
                             "the broker, too)",
                             id);
    if (s->ended)
        return pen_error_set(reterr, s->status, "%s; begin it again", s->reason);
    if (s->version != model->version)
        return pen_error_set(reterr, PEN_ERR_INVALID, "sequence %" PRIu64 " runs on version %" PRIu64, id, s->version);
    status = check_predecessor(broker, s, job, meta->sequence_after, reterr);
    if (status == PEN_OK)
        s->last_job = job;
    return status;
}

void sequence_refused(struct broker *broker, struct session *session, const struct envelope *env,
                      const Penstock__JobMeta *meta, const char *text)
{
    char why[SEQUENCE_REASON_BYTES];
    uint64_t id = sequence_id_of(env, meta);
    struct sequence *s = id ? sequence_find(broker->sequences, session->uuid, id, meta->model) : NULL;
    snprintf(why, sizeof why, "a job of it was refused: %.100s", text);
    if (s)
        sequence_close(broker, s, PEN_ERR_CANCELLED, why);
}
