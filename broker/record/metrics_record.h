/*
 * metrics_record.h - the moments of a job that count, told in the broker's own records and written down in metrics.
 * Threads: owner.
 */
#ifndef METRICS_RECORD_H
#define METRICS_RECORD_H

#include "result_group.h"
#include "broker_state.h"
#include "job.pb-c.h"

/* How a job ended. dispatch: the one that ran it, NULL when none did; group: the worker's answer, NULL without one; text: of our own error. */
struct ending {
    enum finish how;
    const struct dispatch *dispatch;
    const struct result_group *group;
    const char *text;
};

struct model_tally *record_model(struct broker *broker, struct model *model); /* finds it once */

void record_clock(struct broker *broker); /* about once a second: what time it is elsewhere */
/* What the client said of the job's origin. */
void record_origin(struct broker *broker, struct job *job, const Penstock__JobMeta *meta);
/* Redis was asked and has not answered with a hit. */
void record_lookup(struct broker *broker, struct job *job);
/* Its worker was lost or gave it back. */
void record_attempt_lost(struct broker *broker, struct job *job, const struct dispatch *dispatch);

/* What the worker says of itself; how busy its slots are follows from the compute time between two heartbeats. */
void record_heartbeat(const struct broker *broker, struct worker *worker, const Penstock__Heartbeat *beat);

void record_admitted(struct broker *broker, const struct job *job);
void record_dispatch(struct broker *broker, struct dispatch *dispatch); /* it was sent: once per batch */
void record_measured(const struct dispatch *dispatch, uint64_t compute_us);
/* Slot time that a stopped run did not use. */
void record_saved(struct broker *broker, struct model *model, uint64_t us);
void record_requeue(struct broker *broker, struct job *job);
void record_miss(struct broker *broker, struct model *model);
/* Before the job lets go of its lane. reply_bytes: 0 when there was no memory for one. */
void record_end(struct broker *broker, const struct job *job, enum pen_status status, size_t reply_bytes,
                const struct ending *ending);
/* A hit for a SUBMIT that never became a job. */
void record_hit(struct broker *broker, const struct session *session, struct job_id id, struct model *model,
                uint64_t total_us, size_t reply_bytes);
/* A refused SUBMIT; model: what it named, known or not. */
void record_refusal(struct broker *broker, struct job_id id, const char *model, const struct pen_error *error);

#endif
