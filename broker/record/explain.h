/*
 * explain.h - explains a job: why it ran on that worker and in that batch, why it waits, or why it was refused.
 *
 * The facts behind a batch are kept with its dispatch. When a job ends, its story is written into a ring of the last
 * --explain-jobs jobs. A question (`penstock explain`, or JobMeta.explain) turns it into sentences.
 * Threads: owner.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decision.h"
#include "job.pb-c.h"
#include "job_id.h"
#include "penstock/status.h"

struct broker;
struct dispatch;
struct ending;
struct job;
struct result_group;
struct session;

/* A name or sentence cut to its room, with a NUL. */
void explain_text(char *to, size_t room, const char *from);

/* ---- steps of an ensemble that no worker has whole (explain_steps.c) ---- */

/* A step that waits. number: from 1, as in messages to people; the model's name is copied, cut to its room. */
void explain_step_init(struct explained_step *step, uint32_t number, const char *model);
/* Fills in the step from its job; dispatch: NULL when no worker runs it. */
void explain_step_job(struct explained_step *step, const struct job *job, const struct dispatch *dispatch,
                      uint64_t now_us);

enum pen_status explain_init(struct explain_ring *ring, size_t capacity); /* 0: nothing is kept */
void explain_fini(struct explain_ring *ring);

/* The job ends. Call it before the job releases its lane. */
void explain_end(struct broker *broker, const struct job *job, enum pen_status status, const struct ending *ending);
/* A SUBMIT ended without becoming a job: it was refused with a text, or (text NULL) answered from the cache. */
void explain_short(struct broker *broker, const struct session *session, struct job_id id, const char *model,
                   enum pen_status status, const char *text);

/*
 * The explanation of a job that is under way or among the last that ended, allocated with `allocator` (never freed piece by piece). NULL:
 * unknown, or no memory.
 */
Penstock__Explanation *explain_job(struct broker *broker, struct job_id id, ProtobufCAllocator *allocator);
/* The same for a job whose result is on its way: packed as field `field` of another message; NULL without memory; free it. */
uint8_t *explain_packed(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                        uint64_t compute_us, uint32_t field, size_t *ret_bytes);

#endif
