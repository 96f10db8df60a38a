#include "rebind.h"

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

/* Checks the job anew, as if it had just come. */
static enum pen_status judge(struct broker *broker, const struct job *job, struct envelope *ret_env,
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
static struct parcel *with_version(const struct job *job, const struct envelope *env, const uint8_t *meta,
                                   uint64_t version)
{
    struct patch patch = {.used = 0};
    struct envelope own = *env;
    patch_number(&patch, JOB_VERSION, version);
    struct parcel *parcel =
        env->meta_bytes + patch.used <= FRAME_META_BYTES_MAX ? parcel_share(job->request, true) : NULL;
    if (!parcel || parcel_set_header(parcel, &own, meta, env->meta_bytes, &patch) != PEN_OK) {
        parcel_release(parcel);
        return NULL;
    }
    return parcel;
}

/* Its new size is what its key has in flight from now on, and is given back in the end. */
static void take_request(struct job *job, struct parcel *request)
{
    struct identity *identity = job->owner == OWNER_STEP ? NULL : job->session->identity;
    quota_give(identity, parcel_bytes(job->request));
    quota_take(identity, parcel_bytes(request));
    parcel_release(job->request);
    job->request = request;
}

/* False: the job stays where it is. */
static bool rebind(struct broker *broker, struct job *job)
{
    struct envelope env;
    const uint8_t *meta;
    struct admission admission = {.model = NULL};
    struct model *from = job->lane->model;
    if (judge(broker, job, &env, &meta, &admission) != PEN_OK || admission.model == from ||
        admission.model->offers_count == 0)
        return false;
    struct model *to = admission.model;
    struct parcel *request = with_version(job, &env, meta, to->version);
    struct lane *lane = request ? queue_lane(&to->queue, to, &admission.demand, admission.shape) : NULL;
    if (!lane) {
        parcel_release(request);
        return false;
    }
    dispatch_detach(broker, job);
    states_change_model(job, lane);
    take_request(job, request);
    job->rows = admission.rows;
    states_wait(broker, job);
    dispatch_queue(broker, job);
    return true;
}

static uint64_t rebind_lane(struct broker *broker, struct lane *lane)
{
    struct job *jobs[BATCH];
    uint64_t moved = 0;
    size_t count;
    lane->users++; /* outlive the loop */
    while ((count = lane_collect(lane, takes_any, jobs, BATCH)) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (jobs[i]->lane != lane)
                continue;
            if (rebind(broker, jobs[i]))
                moved++;
            else
                jobs[i]->any_version = false; /* no other version takes it: it waits for its own */
        }
    }
    lane_release(lane);
    return moved;
}

static bool is_due(const struct broker *broker, const struct model *model)
{
    return model->offers_count == 0 && model->users > 0 &&
           (model->withdrawn || broker->now_us - model->orphan_us >= (uint64_t)broker->options->worker_wait_us / 2);
}

void rebind_some(struct broker *broker)
{
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&broker->models.active); lane; lane = next) {
        next = TAILQ_NEXT(lane, in_active);
        const struct model *other =
            is_due(broker, lane->model) ? model_find(&broker->models, lane->model->name, 0) : NULL;
        if (!other || other == lane->model || other->offers_count == 0)
            continue;
        uint64_t from = lane->model->version, moved = rebind_lane(broker, lane);
        if (moved == 0)
            continue;
        log_event(LOG_INFO, "jobs_rebound", "model=%s from=%" PRIu64 " jobs=%" PRIu64, other->name, from, moved);
        next = TAILQ_FIRST(&broker->models.active); /* lists have changed: once more from the start */
    }
}
