#include "reroute.h"

#include <inttypes.h>

#include "admit.h"
#include "assertion.h"
#include "dispatch.h"
#include "logline.h"
#include "meta_fields.h"
#include "patch.h"
#include "states.h"

static bool takes_any(const struct job *job)
{
    return job->any_version;
}

static bool takes_form(const struct job *job)
{
    (void)job;
    return true;
}

/* Checks the job anew, as if it had just come. elsewhere: any version will do. */
static enum pen_status judge(struct broker *broker, const struct job *job, bool elsewhere, struct envelope *ret_env,
                             const uint8_t **ret_meta, struct admission *ret_admission)
{
    if (!shared_message_open(job->request, ret_env, ret_meta))
        return PEN_ERR_CORRUPT;
    meta_arena_reset(&broker->arena);
    Penstock__JobMeta *meta =
        meta_unpack(&broker->arena, &penstock__job_meta__descriptor, *ret_meta, ret_env->meta_bytes);
    if (!meta)
        return PEN_ERR_CORRUPT;
    if (elsewhere)
        meta->version = 0;
    for (uint32_t i = 1; i < job->request->count; i++)
        broker->raws[i - 1] = (struct raw_frame){.data = zmq_msg_data(&job->request->frames[i]),
                                                 .bytes = zmq_msg_size(&job->request->frames[i])};
    struct admit_request ask = {.env = ret_env,
                                .labels = &broker->labels,
                                .meta = meta,
                                .raws = broker->raws,
                                .raws_count = job->request->count - 1u,
                                .tenant = job->session->tenant,
                                .digest = broker->options->digest,
                                .tensors = broker->tensors};
    return admit(&broker->models, &ask, ret_admission, NULL);
}

/* The same frames, with another version in the meta. NULL without memory. */
static struct shared_message *with_version(const struct job *job, const struct envelope *env, const uint8_t *meta,
                                           uint64_t version)
{
    struct patch patch = {.used = 0};
    struct envelope own = *env;
    patch_number(&patch, JOB_META_VERSION, version);
    struct shared_message *shared =
        env->meta_bytes + patch.used <= FRAME_META_BYTES_MAX ? shared_message_share_raws(job->request) : NULL;
    if (!shared || shared_message_set_header(shared, &own, meta, env->meta_bytes, &patch) != PEN_OK) {
        shared_message_release(shared);
        return NULL;
    }
    return shared;
}

/* Its key's quota counts the new size from now on, and gets that size back in the end. */
static void take_request(const struct broker *broker, struct job *job, struct shared_message *request)
{
    struct identity *identity = job_is_part(broker, job) ? NULL : job->session->identity;
    quota_give(identity, shared_message_bytes(job->request));
    quota_take(identity, shared_message_bytes(request));
    PEN_ASSERT(job->state == JOB_QUEUED && job->lane_place == 0, "a request is exchanged while its job is in no lane");
    shared_message_release(job->request);
    job->request = request;
}

/* True for another version that has workers, or another form of the same version that has workers. */
static bool better(const struct model *from, const struct admission *admission, bool elsewhere)
{
    if (elsewhere)
        return admission->model != from && admission->model->offers_count > 0;
    return admission->model == from && model_served(from, &admission->demand);
}

/* False: the job stays where it is. */
static bool reroute(struct broker *broker, struct job *job, bool elsewhere)
{
    struct envelope env;
    const uint8_t *meta;
    struct admission admission = {.model = NULL};
    struct model *from = job->lane->model;
    if (judge(broker, job, elsewhere, &env, &meta, &admission) != PEN_OK || !better(from, &admission, elsewhere))
        return false;
    struct model *to = admission.model;
    struct shared_message *request = with_version(job, &env, meta, to->version);
    struct lane *lane = request ? queue_lane(&to->queue, to, &admission.demand, admission.shape) : NULL;
    if (!lane) {
        shared_message_release(request);
        return false;
    }
    dispatch_detach(broker, job);
    states_change_model(job, lane);
    take_request(broker, job, request);
    job->rows = admission.rows;
    states_wait(broker, job);
    dispatch_queue(broker, job);
    return true;
}

/* Moves some of the wanted jobs; a job that no other version takes waits for its own, and is not tried again. */
static uint64_t reroute_batch(struct broker *broker, struct lane *lane, bool elsewhere, size_t *ret_tried)
{
    struct job *jobs[LANE_BATCH];
    uint64_t moved = 0;
    size_t count = lane_collect(lane, elsewhere ? takes_any : takes_form, jobs, LANE_BATCH);
    for (size_t i = 0; i < count; i++) {
        PEN_ASSERT(jobs[i]->state == JOB_QUEUED && jobs[i]->lane == lane, "a job that moves takes no other with it");
        if (reroute(broker, jobs[i], elsewhere))
            moved++;
        else if (elsewhere)
            jobs[i]->any_version = false;
    }
    *ret_tried = count;
    return moved;
}

static bool is_due(const struct broker *broker, const struct model *model)
{
    return model->offers_count == 0 && model->users > 0 &&
           (model->withdrawn || broker->now_us - model->orphan_us >= (uint64_t)broker->options->worker_wait_us / 2);
}

/* True when another version may take this one's jobs. */
static bool version_goes(const struct broker *broker, const struct model *model)
{
    const struct model *other = is_due(broker, model) ? model_find(&broker->models, model->name, 0) : NULL;
    return other && other != model && other->offers_count > 0;
}

/* No worker may be given the lane's jobs, but the model is offered in a form that they were not judged against. */
static bool form_goes(const struct lane *lane)
{
    return lane->model->sequence_idle_us == 0 && forms_beyond(&lane->model->forms, lane->demand.forms) &&
           !model_served(lane->model, &lane->demand);
}

static void log_moved(const struct model *from, uint64_t moved)
{
    if (moved > 0)
        log_event(LOG_INFO, "jobs_rebound", "model=%s from=%" PRIu64 " jobs=%" PRIu64, from->name, from->version,
                  moved);
}

/*
 * The jobs of a lane hardly differ in what forms check: when no job of a batch may go to another form, the rest stays,
 * too. Another version is tried once for each job. The lane exists until the last job of the batch is moved, and may be
 * freed with it; so its effect is posted again before, and goes with the lane.
 */
bool reroute_lane(struct broker *broker, struct effect *effect)
{
    struct lane *lane = effect_of(effect, struct lane, look);
    const struct model *from = lane->model;
    bool form = form_goes(lane), elsewhere = !form && version_goes(broker, from);
    size_t tried = 0;
    if (lane->count == 0 || !(form || elsewhere))
        return lane->count > 0;
    effect_post_again(&broker->effects, effect);
    uint64_t moved = reroute_batch(broker, lane, elsewhere, &tried);
    log_moved(from, moved);
    if (moved > 0 || (elsewhere && tried > 0))
        return false;
    effect_drop(effect); /* all jobs are still in the lane: the next subscriber decides about them */
    return true;
}
