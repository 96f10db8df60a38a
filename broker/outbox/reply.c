#include "reply.h"

#include <stdlib.h>
#include <string.h>

#include "forecast.h"
#include "job.pb-c.h"
#include "explain.h"
#include "meta_fields.h"

struct shared_message *reply_error(struct job_id id, enum pen_status status, const char *text, const char *model,
                                   uint64_t total_us, uint64_t retry_after_us)
{
    uint8_t meta[PEN_ERROR_TEXT_BYTES + 512];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.status = (uint8_t)status;
    result.error = (char *)(uintptr_t)text;
    result.model = (char *)(uintptr_t)(strlen(model) < 256 ? model : "");
    result.total_us = total_us;
    result.retry_after_us = retry_after_us;
    struct shared_message *shared = shared_message_new(1);
    if (shared &&
        shared_message_set_header(shared, &env, meta, penstock__result_meta__pack(&result, meta), NULL) != PEN_OK) {
        shared_message_release(shared);
        return NULL;
    }
    return shared;
}

/* A busy worker does not know the others, so the broker adds when the client may try again. */
static void hint_patch(const struct job *job, enum pen_status status, struct patch *patch)
{
    if (pen_status_retryable(status))
        patch_number(patch, RESULT_META_RETRY_AFTER_US, forecast_wait_hint_us(job->lane->model));
}

static void run_patch(const struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                      const struct result_facts *facts, struct patch *ret_patch)
{
    *ret_patch = (struct patch){.used = 0};
    uint64_t started_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us : job->admitted_us;
    patch_number(ret_patch, RESULT_META_QUEUE_US, started_us - job->admitted_us);
    patch_number(ret_patch, RESULT_META_TOTAL_US, broker->now_us - job->admitted_us);
    patch_number(ret_patch, RESULT_META_BATCH_SIZE, dispatch_run(dispatch, facts).jobs);
    patch_text(ret_patch, RESULT_META_BATCH_REASON, close_reason_name(dispatch->reason));
    patch_number(ret_patch, RESULT_META_ATTEMPTS, job->attempts);
}

/* For an ensemble whose steps ran as jobs of their own: time that was not spent on workers counts as waiting. */
static void whole_patch(const struct broker *broker, const struct job *job, const struct result_group *group,
                        struct patch *ret_patch)
{
    uint64_t total_us = broker->now_us - job->admitted_us, worker_us = group->facts.worker_us;
    *ret_patch = (struct patch){.used = 0};
    patch_number(ret_patch, RESULT_META_QUEUE_US, total_us > worker_us ? total_us - worker_us : 0);
    patch_number(ret_patch, RESULT_META_TOTAL_US, total_us);
    patch_number(ret_patch, RESULT_META_ATTEMPTS, job->attempts);
}

static void hit_patch(uint64_t total_us, const struct model *model, uint64_t age_us, struct patch *ret_patch)
{
    static const uint32_t zeroes[] = {RESULT_META_QUEUE_US,   RESULT_META_COMPUTE_US,  RESULT_META_WORKER_US,
                                      RESULT_META_BATCH_SIZE, RESULT_META_ATTEMPTS,    RESULT_META_WORKER_WAIT_US,
                                      RESULT_META_BATCH_ROWS, RESULT_META_BATCH_PLACE, RESULT_META_GATHER_US,
                                      RESULT_META_SPLIT_US};
    *ret_patch = (struct patch){.used = 0};
    patch_number(ret_patch, RESULT_META_CACHED, 1);
    patch_number(ret_patch, RESULT_META_AGE_US, age_us);
    patch_number(ret_patch, RESULT_META_TOTAL_US, total_us);
    patch_number(ret_patch, RESULT_META_VERSION, model->version);
    for (size_t i = 0; i < sizeof zeroes / sizeof zeroes[0]; i++)
        patch_number(ret_patch, zeroes[i], 0);
    patch_text(ret_patch, RESULT_META_BATCH_REASON, "");
    patch_text(ret_patch, RESULT_META_MODEL, model->name); /* two names may share one content */
}

struct shared_message *reply_raws(struct result_group *group)
{
    struct shared_message *shared = shared_message_new(1u + group->env.frames);
    for (uint32_t i = 1; shared && i < shared->count; i++) {
        if (shared_message_take(shared, i, &group->frames[i - 1]) != PEN_OK) {
            shared_message_release(shared);
            return NULL;
        }
    }
    return shared;
}

struct shared_message *reply_result(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                                    const struct result_group *group, const struct shared_message *raws)
{
    struct patch patch;
    struct envelope env = group->env;
    struct shared_message *shared = shared_message_share_raws(raws);
    if (!shared)
        return NULL;
    env.major = FRAME_VERSION_MAJOR;
    env.minor = FRAME_VERSION_MINOR;
    env.job = job->id;
    if (dispatch)
        run_patch(broker, job, dispatch, &group->facts, &patch);
    else
        whole_patch(broker, job, group, &patch);
    hint_patch(job, (enum pen_status)env.status, &patch);
    uint8_t *why = job->explain ? explain_packed(broker, job, dispatch, group->facts.compute_us,
                                                 RESULT_META_EXPLANATION, &patch.more_bytes)
                                : NULL;
    patch.more = why;
    enum pen_status status = shared_message_set_header(shared, &env, group->meta, group->env.meta_bytes, &patch);
    free(why);
    if (status != PEN_OK) {
        shared_message_release(shared);
        return NULL;
    }
    return shared;
}

/* A stored RESULT again: with its own meta, another id, and the fields of the patch (NULL: none). */
static struct shared_message *again_as(struct job_id id, struct shared_message *stored, const struct patch *patch)
{
    struct envelope env;
    const uint8_t *meta;
    struct shared_message *shared = shared_message_share_raws(stored);
    if (!shared || !shared_message_open(stored, &env, &meta)) {
        shared_message_release(shared);
        return NULL;
    }
    env.job = id;
    env.flags &= (uint16_t)~FRAME_FLAG_STORED;
    if (shared_message_set_header(shared, &env, meta, env.meta_bytes, patch) != PEN_OK) {
        shared_message_release(shared);
        return NULL;
    }
    return shared;
}

struct shared_message *reply_hit(struct broker *broker, struct job_id id, const struct cache_value *value,
                                 const struct model *model, uint64_t admitted_us)
{
    struct patch patch;
    hit_patch(broker->now_us - admitted_us, model, value->age_us, &patch);
    return again_as(id, value->shared, &patch);
}

struct shared_message *reply_stored(struct job_id id, struct shared_message *stored)
{
    return again_as(id, stored, NULL);
}
