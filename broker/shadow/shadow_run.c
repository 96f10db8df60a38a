#include "shadow_run.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "job.pb-c.h"
#include "logline.h"
#include "meta_fields.h"
#include "shadow_compare.h"
#include "submit.h"

#define COPY_DEADLINE_US 10000000u
#define COPY_PRIORITY    255u

/* The session of the tenant's copies; it is never connected and never over. */
static struct session *home_of(struct broker *broker, const struct tenant *tenant)
{
    uint64_t uuid = SHADOW_UUID_FIRST + tenant->number;
    struct session *home = session_find(&broker->sessions, uuid);
    if (home || !(home = session_new(&broker->sessions, uuid)))
        return home;
    home->detached = true; /* of the broker's own: it has no connection and does not end */
    home->owner = OWNER_SHADOW;
    session_belongs(home, tenant);
    snprintf(home->name, sizeof home->name, "shadow");
    return home;
}

/* ---- copying ---- */

/* The original's request as a client would send it to that version; its raw frames are shared, not copied. */
static bool copy_message(const struct job *job, struct job_id id, uint64_t version, struct message *message,
                         struct shared_message **ret_shared)
{
    struct patch patch = {.used = 0};
    struct envelope env;
    const uint8_t *meta;
    struct shared_message *shared = shared_message_share_raws(job->request);
    *ret_shared = shared;
    if (!shared || !shared_message_open(job->request, &env, &meta))
        return false;
    env.job = id;
    env.priority = COPY_PRIORITY;
    env.deadline_us = COPY_DEADLINE_US;
    env.flags = (uint16_t)((env.flags & FRAME_FLAG_DIGEST_SHA256) | FRAME_FLAG_NO_CACHE);
    patch_number(&patch, JOB_META_VERSION, version);
    patch_text(&patch, JOB_META_VERSION_LABEL, "");
    patch_text(&patch, JOB_META_TRACEPARENT, "");
    patch_number(&patch, JOB_META_EXPLAIN, 0);
    if (shared_message_set_header(shared, &env, meta, env.meta_bytes, &patch) != PEN_OK)
        return false;
    for (uint32_t i = 0; i < shared->count; i++) {
        zmq_msg_t frame;
        shared_message_frame(shared, i, &frame);
        if (message_add(message, &frame) != PEN_OK)
            return false;
    }
    return true;
}

/* Nothing waits behind a copy. */
static bool is_room(const struct broker *broker, const struct job *job, const struct model *other)
{
    return !broker->draining && other && other->offers_count > 0 && other->queue.waiting == 0 &&
           job->lane->model->queue.waiting <= 1;
}

static bool copy_submit(struct broker *broker, struct session *home, const struct job *job, struct shadow_pair *pair)
{
    struct message message = {.count = 0};
    struct shared_message *shared = NULL;
    struct pen_error error = {.status = PEN_OK};
    struct envelope env;
    const uint8_t *meta;
    bool taken = false;
    if (copy_message(job, pair->copy.id, pair->rule->version, &message, &shared)) {
        zmq_msg_t *header = &message.frames[0];
        if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, &error) == PEN_OK)
            taken = submit_try(broker, home, &env, meta, &message, &error) == PEN_OK;
        if (!taken && log_enabled(LOG_DEBUG))
            log_event(LOG_DEBUG, "shadow_refused", "model=%s error=%s", pair->rule->model, error.text);
    }
    message_fini(&message);
    shared_message_release(shared);
    return taken;
}

/* False: the pair has ended. */
static bool copy_begin(struct broker *broker, struct shadow_pair *pair)
{
    const struct job *job = jobs_find(&broker->jobs, pair->original.id);
    struct shadow_rule *rule = pair->rule;
    struct session *home = NULL;
    if (job && job->lane && job->request &&
        is_room(broker, job, model_find(&broker->models, rule->model, rule->version)))
        home = home_of(broker, job->session->tenant);
    if (home) {
        pair->copy.id = (struct job_id){.client = home->uuid, .sequence = ++broker->shadow.copies};
        pair->copied = copy_submit(broker, home, job, pair);
    }
    rule->figures.copied += pair->copied;
    rule->figures.skipped += !pair->copied;
    if (!pair->copied)
        shadow_end(&broker->shadow, pair);
    return pair->copied;
}

/* ---- comparing ---- */

static void compare(struct broker *broker, const struct shadow_pair *pair)
{
    struct shadow_figures *figures = &pair->rule->figures;
    struct shadow_difference difference;
    if (!pair->original.answer || !pair->copy.answer ||
        !shadow_compare(pair->original.answer, pair->copy.answer, &broker->arena, &difference)) {
        figures->skipped++;
        return;
    }
    figures->compared++;
    figures->unlike += !difference.alike;
    figures->original_us += pair->original.took_us;
    figures->shadow_us += pair->copy.took_us;
    if (!difference.alike)
        return;
    figures->rows += difference.rows;
    figures->same += difference.same;
    figures->largest = difference.largest > figures->largest ? difference.largest : figures->largest;
    figures->sum += difference.mean;
}

static void pair_ended(struct broker *broker, struct shadow_pair *pair)
{
    struct shadow_figures *figures = &pair->rule->figures;
    if (pair->original.fine && pair->copy.fine)
        compare(broker, pair);
    else if (pair->original.fine)
        figures->failed++;
    else
        figures->skipped++; /* an original that failed, or was taken back, says nothing about the other version */
    shadow_end(&broker->shadow, pair);
}

bool shadow_moves(struct broker *broker, struct effect *effect)
{
    struct shadow *shadow = &broker->shadow;
    (void)effect;
    for (uint32_t i = shadow->pairs_count; i-- > 0;) {
        struct shadow_pair *pair = &shadow->pairs[i];
        if (pair->original.ended && pair->copy.ended)
            pair_ended(broker, pair);
        else if (!pair->copied)
            copy_begin(broker, pair);
    }
    return true;
}

/* ---- the end of a copy ---- */

static void shadow_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                         const struct ending *ending)
{
    (void)ending;
    if (shadow_heard(&broker->shadow, job->id, reply, status, broker->now_us - job->admitted_us))
        effect_post(&broker->effects, &broker->shadow.moves, EFFECT_SHADOW_MOVES);
    answer_retire(broker, job, status);
    session_remove(job->session, job);
    jobs_free(&broker->jobs, job);
    shared_message_release(reply);
}

const struct job_owner shadow_owner = {.name = "shadow", .part = true, .ended = shadow_ended};
