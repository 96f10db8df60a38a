#include "submit.h"

#include <inttypes.h>
#include <string.h>

#include "admit.h"
#include "answer.h"
#include "arrival_log.h"
#include "assertion.h"
#include "cluster.h"
#include "dispatch.h"
#include "error_complete.h"
#include "forecast.h"
#include "held.h"
#include "logline.h"
#include "meta_fields.h"
#include "metrics_record.h"
#include "patch.h"
#include "sequence.h"
#include "trace_spans.h"
#include "words.h"
#include "states.h"
#include "answer_send.h"

enum pen_status submit_memory(struct broker *broker, uint64_t held, uint64_t wanted, struct pen_error *reterr)
{
    enum pen_status status = headroom_take(broker->headroom, held, wanted, broker->now_us, reterr);
    broker->stats.memory_refused += status != PEN_OK;
    return status;
}

enum pen_status submit_fits(const struct options *options, size_t bytes, struct pen_error *reterr)
{
    if (bytes > (uint64_t)options->max_job_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; this broker takes %" PRId64 " (--max-job-bytes)", bytes,
                             options->max_job_bytes);
    if (bytes > (uint64_t)options->queue_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; all jobs that wait at this broker may have %" PRId64
                             " (--queue-bytes)",
                             bytes, options->queue_bytes);
    return PEN_OK;
}

enum pen_status submit_room(struct broker *broker, const struct session *session, size_t bytes, uint64_t *ret_wait_us,
                            struct pen_error *reterr)
{
    const struct options *options = broker->options;
    if (submit_fits(options, bytes, reterr) != PEN_OK)
        return PEN_ERR_TOO_LARGE;
    if (broker->now_us >= broker->drain_refuse_us)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                             "the broker is draining and takes no new jobs; try again shortly or another broker");
    if (broker->queued_bytes + bytes > (uint64_t)options->queue_bytes)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%" PRIu64 " bytes of jobs are waiting, the limit is %" PRId64
                             " (--queue-bytes); try again later",
                             broker->queued_bytes, options->queue_bytes);
    if (submit_memory(broker, bytes, 0, reterr) != PEN_OK)
        return PEN_ERR_BUSY;
    uint64_t wait_us = 0;
    enum pen_status status = PEN_OK;
    if (session->identity)
        status = quota_check(session->identity, cluster_brokers(broker->cluster), bytes, (uint64_t)options->queue_limit,
                             (uint64_t)options->queue_bytes, broker->now_us, &wait_us, reterr);
    if (status != PEN_OK) {
        *ret_wait_us = wait_us;
        return status;
    }
    if (link_full(&session->link, (uint64_t)options->peer_bytes))
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "this client has more than %" PRId64
                             " bytes of replies unread (--peer-bytes); read them first",
                             options->peer_bytes);
    return PEN_OK;
}

static enum pen_status check_groups(const struct envelope *env, const struct message *message, struct pen_error *reterr)
{
    if (message->overflow || message->count != 1u + env->frames)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the envelope announces %u raw frames, the message has %zu",
                             env->frames, message->count - 1);
    if (env->job.sequence == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "job sequences begin at 1, this one is 0");
    return PEN_OK;
}

static enum pen_status read_meta(struct broker *broker, const struct envelope *env, const uint8_t *meta,
                                 struct message *message, Penstock__JobMeta **ret_meta, struct pen_error *reterr)
{
    meta_arena_reset(&broker->arena);
    *ret_meta = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!*ret_meta)
        return meta_refusal(&broker->arena, "the job's meta is no JobMeta (proto/job.proto)", reterr);
    for (size_t i = 1; i < message->count; i++)
        broker->raws[i - 1] =
            (struct raw_frame){.data = zmq_msg_data(&message->frames[i]), .bytes = zmq_msg_size(&message->frames[i])};
    return PEN_OK;
}

/* The worker gets our span of the same trace as its parent. */
static void pass_context(struct job_id id, const char *traceparent, struct patch *patch)
{
    struct trace_context context;
    char text[TRACE_PARENT_BYTES + 1];
    uint8_t span[8];
    if (!trace_context_parse(traceparent, &context))
        return;
    span_id(id, SPAN_WORKER_PARENT, span);
    trace_context_write(&context, span, text);
    patch_text(patch, JOB_META_TRACEPARENT, text);
}

/* The request for the worker: the client's meta with the version that was chosen and the tenant from the hello. */
static enum pen_status make_request(const struct session *session, const struct envelope *env, const uint8_t *meta,
                                    const struct admission *admission, const Penstock__JobMeta *job,
                                    struct message *message, struct shared_message **ret_request)
{
    struct patch patch = {.used = 0};
    struct envelope own = *env;
    if (job->version == 0)
        patch_number(&patch, JOB_META_VERSION, admission->model->version);
    if (session->tenant->number != 0 || *job->tenant)
        patch_text(&patch, JOB_META_TENANT, session->tenant->name);
    if (*job->traceparent)
        pass_context(env->job, job->traceparent, &patch);
    if (env->meta_bytes + patch.used > FRAME_META_BYTES_MAX)
        return PEN_ERR_TOO_LARGE;
    own.minor = FRAME_VERSION_MINOR;
    /* ALONE is set by the broker alone, and DIGEST_FIRST was meant for the broker */
    own.flags &= (uint16_t) ~(FRAME_FLAG_ALONE | FRAME_FLAG_DIGEST_FIRST);
    own.priority = admission->priority;
    own.deadline_us =
        policy_of(&admission->model->queue.policies, admission->priority)->timeout_fixed ? 0 : env->deadline_us;
    own.sequence_id = sequence_id_of(env, job);
    own.tenant_hash = session->tenant->number ? (uint32_t)frame_name_hash(session->tenant->name) : 0;
    struct shared_message *shared = shared_message_new(message->count);
    if (!shared || shared_message_set_header(shared, &own, meta, env->meta_bytes, &patch) != PEN_OK)
        goto fail;
    for (size_t i = 1; i < message->count; i++) {
        if (shared_message_take(shared, i, &message->frames[i]) != PEN_OK)
            goto fail;
    }
    *ret_request = shared;
    return PEN_OK;
fail:
    shared_message_release(shared);
    return PEN_ERR_NO_MEMORY;
}

/* False without memory: a job that is not in this heap would never expire. */
static bool set_deadline(struct broker *broker, struct job *job, const struct admission *admission,
                         const struct envelope *env)
{
    const struct policies *policies = &admission->model->queue.policies;
    job->deadline_us = deadline_at(broker->now_us, policy_allowed_us(policies, admission->priority, env->deadline_us));
    return job->deadline_us == DEADLINE_NONE || heap_push(&broker->deadlines, job) == PEN_OK;
}

static enum pen_status make_job(struct broker *broker, struct session *session, const struct envelope *env,
                                const struct admission *admission, const Penstock__JobMeta *meta,
                                struct shared_message *request, struct job **ret_job, struct pen_error *reterr)
{
    struct queue *queue = &admission->model->queue;
    if (queue_enter(queue, admission->model->name, admission->priority, shared_message_bytes(request), reterr) !=
        PEN_OK)
        return PEN_ERR_BUSY;
    struct lane *lane = queue_lane(queue, admission->model, &admission->demand, admission->shape);
    struct job *job = lane ? jobs_new(&broker->jobs, env->job) : NULL;
    if (!job || !set_deadline(broker, job, admission, env)) {
        if (job)
            jobs_free(&broker->jobs, job);
        if (lane)
            lane_release(lane);
        queue_leave(queue, admission->priority, shared_message_bytes(request));
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker has no memory for another job; try again later");
    }
    job->owner = session->owner & 15u; /* OWNERS_MAX rows */
    job->lane = lane;
    job->request = request;
    job->rows = admission->rows;
    job->priority = admission->priority;
    job->explain = admission->explain;
    job->debug = admission->debug;
    job->outputs = admission->outputs;
    job->any_version = admission->any_version && admission->model->sequence_idle_us == 0;
    job->admitted_us = broker->now_us;
    job->arrival = ++broker->arrivals;
    states_admit(broker, job);
    PEN_ASSERT(queue->waiting > 0 && broker->live > 0, "a new job is counted in its queue, and as live");
    broker->stats.jobs_admitted += !job_is_part(broker, job);
    session_add(session, job);
    quota_take(session->identity, shared_message_bytes(request));
    record_origin(broker, job, meta);
    record_admitted(broker, job);
    *ret_job = job;
    return PEN_OK;
}

static void log_admitted(const struct job *job)
{
    char id[JOB_ID_TEXT_BYTES];
    if (log_enabled(LOG_DEBUG))
        log_event(LOG_DEBUG, "job_admitted", "job=%s model=%s version=%" PRIu64 " bytes=%zu priority=%u",
                  job_id_text(job->id, id), job->lane->model->name, job->lane->model->version,
                  shared_message_bytes(job->request), job->priority);
}

/* Queued at once, behind an identical job, or after Redis has been asked. */
static void place(struct broker *broker, struct job *job, const struct admission *admission, bool asked,
                  uint64_t question)
{
    log_admitted(job);
    if (job->lane->model->sequence_idle_us) {
        sequence_place(broker, job);
        return;
    }
    struct single_flight *flight =
        admission->shared ? single_flight_find(&broker->flights, &admission->key, job->lane) : NULL;
    if (flight) {
        states_set(job, JOB_FOLLOWING);
        single_flight_join(flight, job);
        broker->stats.jobs_coalesced++;
        dispatch_raise(broker, flight->leader, job->priority); /* as urgent as the most urgent that follows */
        return;
    }
    if (admission->shared)
        single_flight_new(&broker->flights, &admission->key, job); /* without memory it simply runs alone */
    if (asked) {
        states_set(job, JOB_LOOKUP);
        job->lookup = question;
        TAILQ_INSERT_TAIL(&broker->lookups, job, in_group);
        return;
    }
    dispatch_queue(broker, job);
}

/* HIT: the job was answered. A job that is identical to one in flight is not looked up, because its answer is on the
   way. */
static enum cache_answer look_up(struct broker *broker, struct session *session, const struct envelope *env,
                                 const struct admission *admission, uint64_t *ret_question)
{
    struct cache_value value;
    if (!admission->shared || !cache_enabled(broker->cache))
        return CACHE_MISS;
    enum cache_answer answer =
        cache_get(broker->cache, &admission->key, session->tenant->name, broker->now_us, &value, ret_question);
    if (answer == CACHE_HIT && match_cached(&admission->demand, &value)) {
        answer_hit(broker, session, env, admission->model, &value, broker->now_us);
        return CACHE_HIT;
    }
    if (answer != CACHE_ASKED)
        record_miss(broker, admission->model);
    return answer == CACHE_ASKED ? CACHE_ASKED : CACHE_MISS;
}

static bool has_leader(const struct broker *broker, const struct admission *admission)
{
    struct table_node *node = NULL;
    uint64_t hash =
        table_hash(&broker->flights, cache_key_half(&admission->key, 0), cache_key_half(&admission->key, 1));
    if (admission->shared)
        node = table_first(&broker->flights, hash);
    return node != NULL; /* a wrong guess only saves one lookup */
}

/* An identical job has just ended workers: it is refused until somebody kicks the entry out or it is too old. */
static bool in_quarantine(struct broker *broker, const struct session *session, const struct envelope *env,
                          const Penstock__JobMeta *meta, const struct admission *admission, struct pen_error *reterr)
{
    char id[JOB_ID_TEXT_BYTES];
    const struct quarantined *entry = NULL;
    const char *tenant = session->tenant->name;
    uint64_t age_us = (uint64_t)broker->options->quarantine_age_us;
    if (broker->quarantine->count == 0)
        return false;
    if (env->flags & FRAME_FLAG_DIGEST)
        entry = quarantine_refuses(broker->quarantine, admission->model, tenant, &env->digest, broker->now_us, age_us);
    if (!entry)
        entry = quarantine_refuses_content(broker->quarantine, admission->model, tenant, meta, broker->tensors,
                                           &broker->arena, broker->now_us, age_us);
    if (!entry)
        return false;
    broker->stats.quarantine_refused++;
    pen_error_set(reterr, PEN_ERR_WORKER_LOST,
                  "a job with the same inputs (%s) was on %u %s lost and is in quarantine; `penstock "
                  "quarantine kick` lets it run again",
                  job_id_text(entry->id, id), entry->deaths,
                  words_plural(entry->deaths, "worker when that was", "workers when they were"));
    return true;
}

/* A job that may be answered without a run of its own (identical job, Redis, a worker that still has it) is not
   judged. */
static enum pen_status in_time(const struct broker *broker, const struct session *session, const struct envelope *env,
                               struct admission *admission, enum cache_answer answer, struct pen_error *reterr)
{
    const struct policies *policies = &admission->model->queue.policies;
    uint64_t remaining_us = policy_allowed_us(policies, admission->priority, env->deadline_us);
    bool delays = policy_delays(policies, admission->priority, env->deadline_us);
    if (!broker->options->refuse_late || delays || answer == CACHE_ASKED || (env->flags & FRAME_FLAG_RESENT) ||
        has_leader(broker, admission))
        return PEN_OK;
    return forecast_check(broker, session, admission, remaining_us, &admission->late_us, reterr);
}

/* A log shows what is inside a model, and its run takes a worker's slot for long. */
static enum pen_status may_debug(const struct session *session, const struct envelope *env,
                                 const Penstock__JobMeta *meta, struct pen_error *reterr)
{
    const struct identity *identity = session->identity;
    if (!meta->debug || !identity || (identity->roles & ROLE_ADMIN))
        return meta->debug && (env->flags & FRAME_FLAG_DETACHED)
                   ? pen_error_set(reterr, PEN_ERR_INVALID,
                                   "a detached job keeps no debug log: submit it without detaching")
                   : PEN_OK;
    return pen_error_set(reterr, PEN_ERR_DENIED, "the key of %s lacks the role admin, which debug mode needs",
                         identity->name);
}

/* Of a job that was admitted: its inputs are in broker->tensors. */
static uint64_t inputs_bytes(const struct broker *broker, const Penstock__JobMeta *meta)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < meta->n_inputs && i < FRAME_MAX_TENSORS; i++)
        bytes += broker->tensors[i].bytes;
    return bytes;
}

/* Shadow traffic: some plain jobs of clients are copied to another version, after this event. */
static void shadow_choose(struct broker *broker, const struct session *session, const struct job *job)
{
    const struct model *model = job->lane->model;
    if (broker->shadow.rules_count == 0 || session->owner != OWNER_CLIENT || model->plan || job->debug ||
        model->sequence_idle_us != 0)
        return;
    struct shadow_rule *rule = shadow_rule(&broker->shadow, model->name);
    if (rule && rule->version != model->version && shadow_is_due(rule) && shadow_begin(&broker->shadow, rule, job->id))
        effect_post(&broker->effects, &broker->shadow.moves, EFFECT_SHADOW_MOVES);
}

static enum pen_status accept_job(struct broker *broker, struct session *session, const struct envelope *env,
                                  const uint8_t *meta, struct message *message, Penstock__JobMeta **ret_meta,
                                  struct admission *admission, struct pen_error *reterr)
{
    struct shared_message *request = NULL;
    struct job *job = NULL;
    uint64_t question = 0;
    struct admit_request ask = {.env = env,
                                .labels = &broker->labels,
                                .fleet = &broker->fleet,
                                .raws = broker->raws,
                                .raws_count = env->frames,
                                .tenant = session->tenant,
                                .digest = broker->options->digest,
                                .tensors = broker->tensors};
    enum pen_status status = check_groups(env, message, reterr);
    if (status == PEN_OK)
        status = read_meta(broker, env, meta, message, ret_meta, reterr);
    ask.meta = *ret_meta;
    if (status == PEN_OK)
        status = may_debug(session, env, *ret_meta, reterr);
    if (status == PEN_OK)
        status = submit_room(broker, session, message->bytes, &admission->late_us, reterr);
    uint64_t version = *ret_meta ? (*ret_meta)->version : 0;
    if (status == PEN_OK)
        sequence_bind_version(broker, session, env, *ret_meta);
    if (status == PEN_OK)
        status = admit(&broker->models, &ask, admission, reterr);
    if (*ret_meta)
        (*ret_meta)->version = version; /* the client's meta stays; the version is patched in */
    if (status == PEN_OK)
        status = sequence_admit(broker, session, env, *ret_meta, admission, reterr);
    if (status != PEN_OK)
        return status;
    arrival_log_note(broker, env, admission, inputs_bytes(broker, *ret_meta));
    if (in_quarantine(broker, session, env, *ret_meta, admission, reterr))
        return PEN_ERR_WORKER_LOST;
    enum cache_answer answer =
        has_leader(broker, admission) ? CACHE_MISS : look_up(broker, session, env, admission, &question);
    if (answer == CACHE_HIT)
        return PEN_OK;
    status = in_time(broker, session, env, admission, answer, reterr);
    if (status != PEN_OK)
        return status;
    status = make_request(session, env, meta, admission, *ret_meta, message, &request);
    if (status != PEN_OK)
        return pen_error_set(reterr, status,
                             "the job's meta leaves no room for the broker's own fields, or memory is short");
    status = make_job(broker, session, env, admission, *ret_meta, request, &job, reterr);
    if (status != PEN_OK) {
        shared_message_release(request);
        return status;
    }
    held_tell(broker, session, job);
    shadow_choose(broker, session, job);
    place(broker, job, admission, answer == CACHE_ASKED, question);
    return PEN_OK;
}

/*
 * Nobody offers the model, or a form that takes the job, but the broker has just started, so the worker may be on its
 * way back. Fresh jobs wait only while no worker at all is connected. With --wake-wait they also wait later, while the
 * broker has not heard of any model: all workers sleep.
 */
static bool may_wait(const struct broker *broker, const struct envelope *env, const struct admission *admission,
                     enum pen_status status, uint64_t first_us)
{
    const struct options *options = broker->options;
    bool unknown = !admission->model && (status == PEN_ERR_UNAVAILABLE || status == PEN_ERR_NOT_FOUND);
    bool starts = broker->now_us - broker->started_us < (uint64_t)options->restart_wait_us &&
                  (broker->models.count == 0 || (env->flags & FRAME_FLAG_RESENT));
    bool sleeps = broker->models.count == 0 && broker->now_us - first_us < (uint64_t)options->wake_wait_us;
    return (unknown || admission->unformed) && !broker->draining && (starts || sleeps);
}

/* first_us: when the job came, now or before it was parked. */
static void submit_since(struct broker *broker, struct session *session, const struct envelope *env,
                         const uint8_t *meta, struct message *message, uint64_t first_us)
{
    struct job *known = jobs_find(&broker->jobs, env->job);
    struct admission admission;
    Penstock__JobMeta *job_meta = NULL;
    struct pen_error error;
    if (known) {
        if (known->state == JOB_DONE)
            answer_again(broker, session, known);
        return; /* live: its answer will come */
    }
    admission_begin(&admission);
    error_begin(&error);
    enum pen_status status = accept_job(broker, session, env, meta, message, &job_meta, &admission, &error);
    if (status == PEN_OK)
        return;
    if (job_meta)
        sequence_refused(broker, session, env, job_meta, error.text);
    if (may_wait(broker, env, &admission, status, first_us) &&
        parked_keep(&broker->parked, env, message, broker->now_us, first_us, (uint64_t)broker->options->queue_bytes)) {
        quota_uncheck(session->identity);
        if (first_us == broker->now_us)
            held_tell_parked(broker, session, env->job);
        return;
    }
    uint64_t hint_us = admission.late_us;
    if (status == PEN_ERR_BUSY && admission.model)
        hint_us = forecast_wait_hint_us(admission.model);
    if (error.status == PEN_OK)
        pen_error_set(&error, status, "the job was refused: %s", pen_status_name(status));
    answer_refusal(broker, session, env, job_meta && strlen(job_meta->model) < 256 ? job_meta->model : "", hint_us,
                   &error);
}

void submit_job(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                struct message *message)
{
    submit_since(broker, session, env, meta, message, broker->now_us);
}

enum pen_status submit_try(struct broker *broker, struct session *session, const struct envelope *env,
                           const uint8_t *meta, struct message *message, struct pen_error *reterr)
{
    struct admission admission = {.model = NULL};
    Penstock__JobMeta *job_meta = NULL;
    if (jobs_find(&broker->jobs, env->job))
        return pen_error_set(reterr, PEN_ERR_BUSY, "a job of that id is under way");
    return accept_job(broker, session, env, meta, message, &job_meta, &admission, reterr);
}

static void submit_again(struct broker *broker, struct parked_submit *entry)
{
    struct envelope *env = &entry->env;
    struct session *session = session_find(&broker->sessions, env->job.client);
    uint64_t waited_us = broker->now_us - entry->since_us;
    if (!session)
        return; /* it said goodbye in the meantime */
    if (env->deadline_us != 0 && env->deadline_us <= waited_us) {
        answer_refuse(broker, session, env, PEN_ERR_DEADLINE,
                      "the deadline passed before a worker came that offers the model");
        return;
    }
    env->deadline_us -= env->deadline_us ? waited_us : 0;
    submit_since(broker, session, env, frame_meta(zmq_msg_data(&entry->message.frames[0])), &entry->message,
                 entry->first_us);
}

void submit_waiting(struct broker *broker)
{
    /* Jobs that must wait on go to the end of the list, so each is judged once. */
    for (uint64_t left = broker->parked.count; left > 0; left--) {
        struct parked_submit *entry = parked_take(&broker->parked);
        if (!entry)
            return;
        submit_again(broker, entry);
        parked_submit_free(entry);
    }
}

static bool parked_is_due(const struct broker *broker, const struct parked_submit *entry)
{
    uint64_t deadline_us = entry->env.deadline_us;
    return broker->now_us - entry->first_us >= (uint64_t)broker->options->wake_wait_us ||
           (deadline_us != 0 && broker->now_us - entry->since_us >= deadline_us);
}

void submit_parked_tick(struct broker *broker)
{
    struct parked_submit *entry, *next;
    if (broker->models.count > 0) {
        submit_waiting(broker);
        return;
    }
    for (entry = TAILQ_FIRST(&broker->parked.entries); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_parked);
        if (!parked_is_due(broker, entry))
            continue;
        parked_take_out(&broker->parked, entry);
        submit_again(broker, entry);
        parked_submit_free(entry);
    }
}

bool submit_worker_came(struct broker *broker, struct effect *effect)
{
    (void)effect;
    submit_waiting(broker);
    return true;
}

void submit_cancel(struct broker *broker, struct session *session, const struct envelope *env)
{
    if (parked_remove(&broker->parked, env->job))
        answer_refuse(broker, session, env, PEN_ERR_CANCELLED, "the client cancelled the job");
}
