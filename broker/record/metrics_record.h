/*
 * metrics_record.h - records the important moments of a job in the metrics, from the broker's own records.
 * Threads: owner.
 */
#ifndef METRICS_RECORD_H
#define METRICS_RECORD_H

#include "result_group.h"
#include "broker_state.h"
#include "job.pb-c.h"

/* How a job ended. dispatch: the run, NULL when there was none; group: the worker's answer, NULL without one; text:
   of the broker's own error. */
struct ending {
    enum finish how;
    const struct dispatch *dispatch;
    const struct result_group *group;
    const char *text;
};

struct model_tally *record_model(struct broker *broker, struct model *model); /* looks it up once per model */

void record_clock(struct broker *broker); /* about once a second: compares the broker's clock with the system's */
/* What the client said about where the job comes from. */
void record_origin(struct broker *broker, struct job *job, const Penstock__JobMeta *meta);
/* Redis was asked and has answered without a hit, or not at all. */
void record_lookup(struct broker *broker, struct job *job);
/* The job's worker was lost or gave the job back. */
void record_attempt_lost(struct broker *broker, struct job *job, const struct dispatch *dispatch);

/* The worker's heartbeat; the compute time between two heartbeats tells how busy its slots are. */
void record_heartbeat(const struct broker *broker, struct worker *worker, const Penstock__Heartbeat *beat);

void record_admitted(struct broker *broker, const struct job *job);
void record_dispatch(struct broker *broker, struct dispatch *dispatch); /* call it once per batch that was sent */
/* A run of the worker took compute_us; call it once per run, before the forecast learns of it. */
void record_run(const struct dispatch *dispatch, struct shared_run run, uint64_t compute_us);
/* Slot time that was not used because a run was stopped. */
void record_saved(struct broker *broker, struct model *model, uint64_t us);
void record_requeue(struct broker *broker, struct job *job);
void record_miss(struct broker *broker, struct model *model);
/* Call it before the job releases its lane. reply_bytes: 0 when there was no memory for a reply. */
void record_end(struct broker *broker, const struct job *job, enum pen_status status, size_t reply_bytes,
                const struct ending *ending);
/* A hit for a SUBMIT that never became a job. */
void record_hit(struct broker *broker, const struct session *session, struct job_id id, struct model *model,
                uint64_t total_us, size_t reply_bytes);
/* A refused SUBMIT; model: what it named, known or not. */
void record_refusal(struct broker *broker, struct job_id id, const char *model, const struct pen_error *error);

#endif
