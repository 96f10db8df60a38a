#include "broker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "answer_send.h"
#include "arrival_log.h"
#include "ensemble_run.h"
#include "cost.h"
#include "control.pb-c.h"
#include "detached.h"
#include "dispatch.h"
#include "handover_out.h"
#include "hedge.h"
#include "lane_look.h"
#include "logline.h"
#include "metrics_record.h"
#include "payload.h"
#include "notify.h"
#include "reroute.h"
#include "sequence.h"
#include "shadow_run.h"
#include "usage_save.h"
#include "submit.h"
#include "version.h"
#include "worker.pb-c.h"
#include "worker_handler.h"

#define JOB_ARENA_BYTES                                                                                                \
    (1024u * 1024u) /* a JobMeta of 64 KiB unpacked; the largest expansion is about 12 (empty texts) */

/*
 * The subscribers of each effect, in the order of their calls; README.md lists them, too. A worker's runs are adopted
 * after the jobs that its clients have sent again are in the queue. The end of a worker is told to its sequences before
 * its jobs go back to the queue, so that those jobs get the right reason.
 */
static const effect_row subscribers[EFFECT_COUNT] = {
    [EFFECT_CLIENT_GONE] = {departure_client_gone},
    [EFFECT_ROOM_FOR_REPLIES] = {answer_room},
    [EFFECT_WORKER_JOINED] = {detached_worker_came, submit_worker_came, worker_adopt, lanes_fleet_changed,
                              worker_welcome},
    [EFFECT_WORKER_UPDATED] = {detached_worker_came, submit_worker_came, sequence_worker_updated, lanes_fleet_changed},
    [EFFECT_WORKER_DRAINS] = {sequence_worker_drains, lanes_fleet_changed},
    [EFFECT_WORKER_ENDED] = {lanes_fleet_changed, departure_worker_ended},
    [EFFECT_WORKER_LEFT] = {sequence_worker_left, departure_take_back, fleet_order_worker_left, lanes_fleet_changed,
                            departure_worker_left},
    [EFFECT_LANE_LOOK] = {reroute_lane, ensemble_lane, lane_unserved},
    [EFFECT_PAYLOAD_HERE] = {payload_here},
    [EFFECT_ENSEMBLE_MOVES] = {ensemble_moves},
    [EFFECT_SEQUENCE_MOVES] = {sequence_moves},
    [EFFECT_SHADOW_MOVES] = {shadow_moves},
};

static const struct job_course plain_course = {.name = "plain"};

enum pen_status broker_init(struct broker *broker, const struct options *options, struct cache *cache,
                            uint64_t (*clock)(void))
{
    *broker = (struct broker){.options = options, .cache = cache, .clock = clock, .uuid = random_u64()};
    broker->now_us = broker->started_us = broker->beat_us = clock();
    broker->hedge_us = broker->probe_us = broker->wake_us = broker->drain_refuse_us = broker->drain_end_us = UINT64_MAX;
    TAILQ_INIT(&broker->lookups);
    TAILQ_INIT(&broker->neighbours.handover.out);
    parked_init(&broker->parked);
    meta_arena_init(&broker->arena, JOB_ARENA_BYTES);
    broker->metrics = metrics_new(broker->now_us);
    broker->usage = usage_new();
    if (broker->metrics) {
        job_traces_ring_init(&broker->metrics->kept, (uint32_t)options->trace_keep); /* without memory none are kept */
        record_clock(broker);
    }
    heap_init(&broker->deadlines, job_deadline_before, offsetof(struct job, deadline_place));
    effects_init(&broker->effects, subscribers);
    broker->courses[COURSE_PLAIN] = &plain_course;
    broker->courses[COURSE_ENSEMBLE] = &ensemble_course;
    broker->courses[COURSE_SEQUENCE] = &sequence_course;
    broker->owners[OWNER_CLIENT] = &answer_client;
    broker->owners[OWNER_STEP] = &ensemble_step_owner;
    broker->owners[OWNER_DETACHED] = &detached_owner;
    broker->owners[OWNER_SHADOW] = &shadow_owner;
    broker->owners[OWNER_HANDED] = &handover_owner;
    broker->quarantine = quarantine_new();
    broker->fleet_orders = fleet_orders_new();
    broker->ensembles = ensembles_new();
    broker->sequences = sequences_new();
    if (!broker->ensembles || !broker->sequences || !broker->metrics || !broker->usage || !broker->quarantine ||
        !broker->fleet_orders || explain_init(&broker->explain, (size_t)options->explain_jobs) != PEN_OK ||
        jobs_init(&broker->jobs) != PEN_OK || single_flights_init(&broker->flights) != PEN_OK ||
        sessions_init(&broker->sessions, &broker->jobs, (uint64_t)options->replies_bytes,
                      (uint64_t)options->replies_age_us) != PEN_OK ||
        models_init(&broker->models, (uint64_t)options->queue_limit) != PEN_OK ||
        fleet_init(&broker->fleet, &broker->models) != PEN_OK || transfer_hub_init(&broker->transfers) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    sessions_weights(&broker->sessions, &options->tenant_weights);
    return PEN_OK;
}

/* Jobs that are still live end without an answer: the connections are closed by now. */
static void drop_jobs(struct broker *broker)
{
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        session->connected = false;
        while (!TAILQ_EMPTY(&session->live))
            answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_UNAVAILABLE, "the broker is stopping");
    }
}

void broker_settle(struct broker *broker)
{
    jobs_settle(&broker->jobs);
    table_settle(&broker->flights);
    heap_settle(&broker->deadlines);
}

void broker_fini(struct broker *broker)
{
    effects_begin(&broker->effects);
    drop_jobs(broker);
    effects_drain(broker);
    if (broker->usage)
        usage_save(broker);
    shadow_fini(&broker->shadow);
    detached_free(broker->detached);
    broker->detached = NULL;
    parked_fini(&broker->parked);
    transfer_hub_fini(broker);
    sessions_fini(&broker->sessions);
    fleet_fini(&broker->fleet);
    models_fini(&broker->models);
    jobs_fini(&broker->jobs);
    single_flights_fini(&broker->flights);
    heap_fini(&broker->deadlines);
    metrics_free(broker->metrics);
    usage_free(broker->usage);
    quarantine_free(broker->quarantine);
    explain_fini(&broker->explain);
    arrival_log_free(broker->arrival_log);
    labels_fini(&broker->labels);
    fleet_orders_free(broker->fleet_orders);
    ensembles_free(broker->ensembles);
    sequences_free(broker->sequences);
    meta_arena_fini(&broker->arena);
}
