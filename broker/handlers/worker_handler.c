#include "worker_handler.h"

#include <inttypes.h>

#include "worker_handler_internal.h"
#include "dispatch.h"
#include "door.h"
#include "error_complete.h"
#include "logline.h"
#include "metrics_record.h"
#include "sealed_in.h"
#include "send.h"
#include "departure.h"
#include "fleet_order.h"
#include "transfer.h"

#define RUNNING_MAX 16384u /* how many jobs of a hello are looked at: the most that a worker of 64 slots may hold */

void worker_bad_message(struct broker *broker, const char *reason)
{
    door_bad_message(broker, broker->workers, reason);
}

/* ---- hello ---- */

bool worker_adopt(struct broker *broker, struct effect *effect)
{
    struct worker *worker = effect_of(effect, struct worker, joined);
    const Penstock__WorkerHello *hello = worker->hello;
    char text[JOB_ID_TEXT_BYTES];
    for (size_t i = 0; i < hello->n_running && i < RUNNING_MAX; i++) {
        struct job_id id = {.client = hello->running[i]->client, .sequence = hello->running[i]->sequence};
        if (id.client == 0 || id.sequence == 0)
            continue; /* no job has such an id, and no message may name it */
        struct job *job = jobs_find(&broker->jobs, id);
        if (job && job->state == JOB_QUEUED && dispatch_adopt(broker, worker, job))
            log_event(LOG_INFO, "job_adopted", "job=%s worker=%s", job_id_text(id, text), hello->name);
        else
            broker_cancel(broker, worker, id); /* answered, unknown, or begun elsewhere */
    }
    return true;
}

bool worker_welcome(struct broker *broker, struct effect *effect)
{
    broker_welcome(broker, broker->workers, effect_of(effect, struct worker, joined)->link.peer, PEN_OK, "");
    return true;
}

static void replace(struct broker *broker, struct worker *old)
{
    log_event(LOG_INFO, "worker_back", "worker=%s uuid=%016" PRIx64, old->hello->name, old->uuid);
    broker_worker_leave(broker, old); /* the process lives: its jobs are no suspects */
}

static void log_hello(const struct worker *worker)
{
    log_event(LOG_INFO, "worker_ready",
              "worker=%s uuid=%016" PRIx64 " host=%s backend=%s device=%s slots=%u models=%zu", worker->hello->name,
              worker->uuid, worker->hello->host, worker->hello->backend, worker->hello->device, worker->slots,
              worker->offers_count);
    for (size_t i = 0; i < worker->offers_count; i++) {
        const struct model *model = worker->offers[i]->model;
        if (model->digest_mixed)
            log_event(LOG_WARN, "model_digests_differ", "model=%s version=%" PRIu64 " worker=%s", model->name,
                      model->version, worker->hello->name);
        if (forms_offered(&model->forms) > 1)
            log_event(LOG_WARN, "model_forms_differ", "model=%s version=%" PRIu64 " worker=%s forms=%u reason=%s",
                      model->name, model->version, worker->hello->name, forms_offered(&model->forms),
                      "workers offer this version with other inputs, outputs or batch sizes: each job goes to those "
                      "that take it; give them versions of their own unless one is about to replace the other");
    }
}

static void hello(struct broker *broker, struct message *message, const struct envelope *env, const uint8_t *meta)
{
    struct pen_error error = {.status = PEN_OK};
    struct worker *worker = NULL, *old = fleet_by_peer(&broker->fleet, message->peer);
    struct identity *identity = broker->keyring ? keyring_find(broker->keyring, message->user) : NULL;
    if (door_check(broker, broker->workers, identity, &error) != PEN_OK) {
        broker_welcome(broker, broker->workers, message->peer, PEN_ERR_DENIED, error.text);
        return;
    }
    /* Makes the new record first, so that a refused hello changes nothing. */
    enum pen_status status = fleet_join(&broker->fleet, meta, env->meta_bytes, message->peer, message_fd(message),
                                        broker->now_us, &worker, &error);
    if (status != PEN_OK) {
        broker->stats.messages_bad++;
        log_event(LOG_WARN, "worker_refused", "status=%s reason=%s", pen_status_name(status), error.text);
        broker_welcome(broker, broker->workers, message->peer, status, error.text);
        return;
    }
    worker->identity = identity;
    worker->transfers =
        (struct transfer_end){.able = worker->hello->bulk, .seals = worker->hello->sealed, .worker = worker};
    if (!old)
        old = fleet_other_by_uuid(&broker->fleet, worker);
    if (old && old->identity != identity) { /* a uuid belongs to the key that used it first */
        log_event(LOG_WARN, "worker_refused", "uuid=%016" PRIx64 " reason=%s", worker->uuid,
                  "another key's worker has that uuid");
        fleet_leave(&broker->fleet, worker, broker->now_us);
        broker_welcome(broker, broker->workers, message->peer, PEN_ERR_DENIED,
                       "a worker of that uuid belongs to another key");
        return;
    }
    if (old) {
        fleet_inherit(worker, old);
        replace(broker, old); /* first: its jobs are queued before the new record adopts what still runs */
    }
    port_takes_packs(broker->workers, message->peer, worker->hello->pack_bytes);
    log_hello(worker);
    effect_post(&broker->effects, &worker->joined, EFFECT_WORKER_JOINED);
    broker->schedule = true;
}

/* ---- what a worker that said hello says ---- */

static void on_result(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                      const uint8_t *meta)
{
    (void)env;
    (void)meta;
    if (sealed_in_whole(broker, &worker->transfers, message))
        worker_result(broker, worker, message);
}

static void on_credit(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                      const uint8_t *meta)
{
    (void)message;
    (void)meta;
    transfer_credit(broker, &worker->transfers, env);
}

static void on_update(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                      const uint8_t *meta)
{
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = fleet_update(&broker->fleet, worker, meta, env->meta_bytes, broker->now_us, &error);
    if (status != PEN_OK) {
        worker_bad_message(broker, error.text);
        broker_welcome(broker, broker->workers, message->peer, status, error.text);
        return;
    }
    log_hello(worker);
    broker->schedule = true;
    effect_post(&broker->effects, &worker->updated, EFFECT_WORKER_UPDATED);
}

/* The worker is alive, but its oldest run takes far too long: logs it once, and again after the worker has
   recovered. */
static void note_slow(struct broker *broker, struct worker *worker)
{
    const struct dispatch *oldest = TAILQ_FIRST(&worker->dispatches);
    bool slow = oldest && loss_slow(worker->beat.oldest_running_us, oldest->expect_us);
    if (slow && !worker->slow) {
        broker->stats.workers_slow++;
        log_event(LOG_WARN, "worker_slow", "worker=%s uuid=%016" PRIx64 " running_us=%" PRIu64 " expect_us=%" PRIu64,
                  worker->hello->name, worker->uuid, worker->beat.oldest_running_us, oldest->expect_us);
    }
    worker->slow = slow;
}

static void on_control_reply(struct broker *broker, struct worker *worker, struct message *message,
                             const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    fleet_order_answered(broker, worker, (enum pen_status)env->status, meta, env->meta_bytes);
}

static void on_heartbeat(struct broker *broker, struct worker *worker, struct message *message,
                         const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    meta_arena_reset(&broker->arena);
    const Penstock__Heartbeat *beat =
        meta_unpack(&broker->arena, &penstock__heartbeat__descriptor, meta, env->meta_bytes);
    if (!beat) {
        struct pen_error error = {.status = PEN_OK};
        meta_refusal(&broker->arena, "a heartbeat's meta is no Heartbeat (proto/worker.proto)", &error);
        worker_bad_message(broker, error.text);
        return;
    }
    record_heartbeat(broker, worker, beat);
    note_slow(broker, worker);
    broker->schedule |= worker_shared(worker, beat->credit, beat->elsewhere_us);
    struct job_id alone = {0};
    if (beat->alone)
        alone = (struct job_id){.client = beat->alone->client, .sequence = beat->alone->sequence};
    broker->schedule |= worker_alone(worker, alone, beat->paused);
}

static void on_ping(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                    const uint8_t *meta)
{
    (void)message;
    (void)meta;
    struct envelope pong = envelope_make(FRAME_PONG);
    pong.job = env->job;
    broker_send_worker(broker, worker, &pong, NULL, 0);
}

static void on_pong(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                    const uint8_t *meta)
{
    (void)broker;
    (void)message;
    (void)env;
    (void)meta;
    link_ponged(&worker->link);
}

/* The worker said so, or we asked for it: it gets no more work and finishes what it has. */
static void drains(struct broker *broker, struct worker *worker)
{
    worker->state = WORKER_DRAINING;
    effect_post(&broker->effects, &worker->drains, EFFECT_WORKER_DRAINS);
}

static void on_drain(struct broker *broker, struct worker *worker, struct message *message, const struct envelope *env,
                     const uint8_t *meta)
{
    (void)message;
    (void)env;
    (void)meta;
    if (worker->state == WORKER_DRAINING)
        return;
    log_event(LOG_INFO, "worker_draining", "worker=%s jobs=%u", worker->hello->name, worker->jobs);
    drains(broker, worker);
}

/* The worker promised to answer what it held before it said GOODBYE; jobs that it still holds go back to the queue
   without blame. */
static void on_goodbye(struct broker *broker, struct worker *worker, struct message *message,
                       const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    (void)env;
    (void)meta;
    log_event(LOG_INFO, "worker_gone", "worker=%s uuid=%016" PRIx64 " jobs=%u", worker->hello->name, worker->uuid,
              worker->jobs);
    broker_worker_leave(broker, worker);
}

void worker_drain_told(struct broker *broker, struct worker *worker)
{
    struct envelope env = envelope_make(FRAME_DRAIN);
    log_event(LOG_INFO, "worker_drain", "worker=%s jobs=%u", worker->hello->name, worker->jobs);
    drains(broker, worker);
    broker_send_worker(broker, worker, &env, NULL, 0);
}

typedef void (*worker_verb)(struct broker *broker, struct worker *worker, struct message *message,
                            const struct envelope *env, const uint8_t *meta);

static const worker_verb verbs[FRAME_TYPE_COUNT] = {
    [FRAME_RESULT] = on_result,       [FRAME_WORKER_UPDATE] = on_update,
    [FRAME_HEARTBEAT] = on_heartbeat, [FRAME_PING] = on_ping,
    [FRAME_PONG] = on_pong,           [FRAME_DRAIN] = on_drain,
    [FRAME_GOODBYE] = on_goodbye,     [FRAME_CONTROL_REPLY] = on_control_reply,
    [FRAME_CREDIT] = on_credit,
};

static void take_message(struct broker *broker, struct message *message)
{
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error;
    error_begin(&error);
    broker->now_us = broker->clock();
    enum door_word word = door_envelope(broker, broker->workers, message, &env, &meta, &error);
    bool cut_short = word == DOOR_BROKEN && error.status == PEN_ERR_TOO_LARGE && env.type == FRAME_RESULT;
    if (word == DOOR_BROKEN && !cut_short) /* a cut-short one has a readable job id, and its job waits */
        worker_bad_message(broker, error.text);
    if (word != DOOR_OPEN && !cut_short)
        return;
    if (env.type == FRAME_WORKER_HELLO) {
        hello(broker, message, &env, meta);
        return;
    }
    if (env.type == FRAME_ATTACH || env.type == FRAME_CHUNK) {
        transfer_message(broker, broker->workers, message, &env);
        return;
    }
    if (env.type == FRAME_CLIENT_HELLO) {
        door_wrong(broker, broker->workers, message->peer);
        return;
    }
    if (!verbs[env.type]) {
        worker_bad_message(broker, frame_type_name(env.type));
        return;
    }
    struct worker *worker = fleet_by_peer(&broker->fleet, message->peer);
    if (worker) {
        worker->link.heard_us = broker->now_us;
        verbs[env.type](broker, worker, message, &env, meta);
        return;
    }
    broker->stats.results_duplicate += env.type == FRAME_RESULT; /* from a worker that was given up */
    if (env.type != FRAME_GOODBYE)
        broker_resume(broker, broker->workers, message->peer);
}

void worker_message(struct broker *broker, struct message *message)
{
    effects_begin(&broker->effects);
    take_message(broker, message);
    effects_drain(broker);
}
