#include "reroute.h"

#include <inttypes.h>

#include "admit.h"
#include "broker_state.h"
#include "dispatch.h"
#include "logline.h"
#include "patch.h"
#include "states.h"

#define BATCH       256u
#define JOB_VERSION 2u /* field of JobMeta in proto/job.proto */

static bool takes_any(const struct job *job)
{
    return job->any_version;
}

static bool takes_form(const struct job *job)
{
    (void)job;
    return true;
}

/* Checks the job anew, as if it had just come. elsewhere: in whatever version. */
static enum pen_status judge(struct broker *broker, const struct job *job, bool elsewhere, struct envelope *ret_env,
                             const uint8_t **ret_meta, struct admission *ret_admission)
{
    zmq_msg_t *header = &job->request->frames[0];
    enum pen_status status = envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, ret_meta, NULL);
    if (status != PEN_OK)
        return status;
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
    patch_number(&patch, JOB_VERSION, version);
    struct shared_message *shared =
        env->meta_bytes + patch.used <= FRAME_META_BYTES_MAX ? shared_message_share(job->request, true) : NULL;
    if (!shared || shared_message_set_header(shared, &own, meta, env->meta_bytes, &patch) != PEN_OK) {
        shared_message_release(shared);
        return NULL;
    }
    return shared;
}

/* Its new size is what its key has in flight from now on, and is given back in the end. */
static void take_request(const struct broker *broker, struct job *job, struct shared_message *request)
{
    struct identity *identity = job_is_part(broker, job) ? NULL : job->session->identity;
    quota_give(identity, shared_message_bytes(job->request));
    quota_take(identity, shared_message_bytes(request));
    shared_message_release(job->request);
    job->request = request;
}

/* Another version that somebody serves; or another form of the same that somebody serves. */
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

static uint64_t reroute_lane(struct broker *broker, struct lane *lane)
{
    struct job *jobs[BATCH];
    uint64_t moved = 0;
    size_t count;
    lane->users++; /* outlive the loop */
    while ((count = lane_collect(lane, takes_any, jobs, BATCH)) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (jobs[i]->lane != lane)
                continue;
            if (reroute(broker, jobs[i], true))
                moved++;
            else
                jobs[i]->any_version = false; /* no other version takes it: it waits for its own */
        }
    }
    lane_release(lane);
    return moved;
}

/* Jobs of a lane are alike in nearly all that forms look at: when none of so many may go, the rest stays, too. */
static uint64_t reform_lane(struct broker *broker, struct lane *lane)
{
    struct job *jobs[BATCH];
    uint64_t moved = 0, before;
    lane->users++; /* outlive the loop */
    do {
        before = moved;
        size_t count = lane_collect(lane, takes_form, jobs, BATCH);
        for (size_t i = 0; i < count; i++)
            moved += jobs[i]->lane == lane && reroute(broker, jobs[i], false);
    } while (moved > before);
    lane_release(lane);
    return moved;
}

static bool is_due(const struct broker *broker, const struct model *model)
{
    return model->offers_count == 0 && model->users > 0 &&
           (model->withdrawn || broker->now_us - model->orphan_us >= (uint64_t)broker->options->worker_wait_us / 2);
}

/* Nobody who may be given the lane's jobs is here, but the model is offered in a form that they were not judged against. */
static bool reform_is_due(const struct lane *lane)
{
    return lane->model->sequence_idle_us == 0 && forms_beyond(&lane->model->forms, lane->demand.forms) &&
           !model_served(lane->model, &lane->demand);
}

/* The lane's jobs go where they are taken. */
static uint64_t move_lane(struct broker *broker, struct lane *lane)
{
    const struct model *model = lane->model;
    if (reform_is_due(lane))
        return reform_lane(broker, lane);
    const struct model *other = is_due(broker, model) ? model_find(&broker->models, model->name, 0) : NULL;
    return other && other != model && other->offers_count > 0 ? reroute_lane(broker, lane) : 0;
}

void reroute_some(struct broker *broker)
{
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&broker->models.active); lane; lane = next) {
        next = TAILQ_NEXT(lane, in_active);
        const struct model *model = lane->model;
        uint64_t moved = move_lane(broker, lane);
        if (moved == 0)
            continue;
        log_event(LOG_INFO, "jobs_rebound", "model=%s from=%" PRIu64 " jobs=%" PRIu64, model->name, model->version,
                  moved);
        next = TAILQ_FIRST(&broker->models.active); /* lists have changed: once more from the start */
    }
}
