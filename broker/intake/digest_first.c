#include "digest_first.h"

#include "admit.h"
#include "answer.h"
#include "arrival_log.h"
#include "broker_state.h"
#include "penstock/dtype.h"

/* True when the job has text inputs: those can only be judged with their bytes, which have not come. */
static bool has_texts(const Penstock__JobMeta *job)
{
    for (size_t i = 0; i < job->n_inputs; i++)
        if (job->inputs[i]->dtype == PEN_DTYPE_STRING)
            return true;
    return false;
}

/* Judges the job by its descriptors, as if the bytes had come. */
static bool judge(struct broker *broker, const struct session *session, const struct envelope *env, const uint8_t *meta,
                  const struct bulk *run, struct admission *ret_admission)
{
    struct pen_error ignored = {.status = PEN_OK};
    meta_arena_reset(&broker->arena);
    Penstock__JobMeta *job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!job || has_texts(job))
        return false;
    for (uint32_t i = 0; i < run->count; i++)
        broker->raws[i] = (struct raw_frame){.data = meta, .bytes = run->sizes[i]}; /* the bytes are never read */
    struct admit_request ask = {.env = env,
                                .labels = &broker->labels,
                                .meta = job,
                                .raws = broker->raws,
                                .raws_count = run->count,
                                .tenant = session->tenant,
                                .digest = broker->options->digest,
                                .tensors = broker->tensors};
    if (!admit_may_share(&ask))
        return false; /* labels with shares would count it twice */
    return admit(&broker->models, &ask, ret_admission, &ignored) == PEN_OK && ret_admission->shared;
}

static uint64_t announced_bytes(const struct bulk *run)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->count; i++)
        bytes += run->sizes[i];
    return bytes;
}

static bool answer(struct broker *broker, struct session *session, const struct envelope *env, const struct bulk *run,
                   const struct admission *admission, const struct cache_value *value)
{
    if (!match_cached(&admission->demand, value))
        return false;
    /* Redis may have answered long after the announcement was accepted. A reply that cannot be sent now would be
       lost, so the payload is asked for. */
    if (link_full(&session->link, (uint64_t)broker->options->peer_bytes))
        return false;
    broker->stats.early_hits++;
    arrival_log_note(broker, env, admission, announced_bytes(run));
    answer_hit(broker, session, env, admission->model, value, broker->now_us);
    return true;
}

enum cache_answer digest_first_look(struct broker *broker, struct session *session, const struct envelope *env,
                                    const uint8_t *meta, const struct bulk *run, uint64_t *ret_question)
{
    struct admission admission = {.model = NULL};
    struct cache_value value;
    if (digest_first_bytes(broker) == 0 || !(env->flags & FRAME_FLAG_DIGEST) ||
        (env->flags & (FRAME_FLAG_NO_CACHE | FRAME_FLAG_DETACHED | FRAME_FLAG_FETCH)) ||
        !judge(broker, session, env, meta, run, &admission))
        return CACHE_MISS;
    enum cache_answer found =
        cache_get(broker->cache, &admission.key, session->tenant->name, broker->now_us, &value, ret_question);
    if (found == CACHE_HIT && !answer(broker, session, env, run, &admission, &value))
        return CACHE_MISS;
    return found;
}

bool digest_first_answer(struct broker *broker, struct session *session, const struct envelope *env,
                         const uint8_t *meta, const struct bulk *run, const struct cache_value *value)
{
    struct admission admission = {.model = NULL};
    return judge(broker, session, env, meta, run, &admission) && answer(broker, session, env, run, &admission, value);
}
