/*
 * reply.h - makes the frames of a job's RESULT from a worker's result, a stored value, or an error. Nothing is sent
 * here (answer_send.c).
 * Threads: owner.
 */
#ifndef REPLY_H
#define REPLY_H

#include "broker_state.h"
#include "result_group.h"

/* Each gives a message with one reference; NULL without memory. */

/* A result without outputs. model: "" where there is none; retry_after_us: 0 = the client need not wait before it
   tries again. */
struct shared_message *reply_error(struct job_id id, enum pen_status status, const char *text, const char *model,
                                   uint64_t total_us, uint64_t retry_after_us);
/* Moves the raw frames of a worker's result out of the group; frame 0 stays empty. */
struct shared_message *reply_raws(struct result_group *group);
/*
 * A worker's result under the id and with the times of `job`; the worker may have run it for another job. `raws` has
 * the raw frames. dispatch: the run; NULL for an ensemble whose steps ran as jobs of their own.
 */
struct shared_message *reply_result(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                                    const struct result_group *group, const struct shared_message *raws);
/* A cached value as the result of a job that came at admitted_us. `model` is the model that this job named, because
   two names may share one content. */
struct shared_message *reply_hit(struct broker *broker, struct job_id id, const struct cache_value *value,
                                 const struct model *model, uint64_t admitted_us);
/* A stored reply under another id; NULL also when its header cannot be read. */
struct shared_message *reply_stored(struct job_id id, struct shared_message *stored);

#endif
