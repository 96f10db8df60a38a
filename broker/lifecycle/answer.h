/*
 * answer.h - the end of a job: its one final RESULT, what is kept of it, and what becomes of identical jobs.
 * Threads: owner.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "broker_state.h"
#include "result_group.h"

/* Refuses a SUBMIT that never became a job. retry_after_us 0: nothing better is known than a tenth of a second, where it helps to try again. */
void answer_refusal(struct broker *broker, struct session *session, const struct envelope *env, const char *model,
                    uint64_t retry_after_us, const struct pen_error *error);
/* A hit for a SUBMIT that never became a job. */
void answer_hit(struct broker *broker, struct session *session, const struct envelope *env, struct model *model,
                const struct cache_value *value, uint64_t started_us);
/* A hit for a job that waited for Redis, and for its followers. */
void answer_job_hit(struct broker *broker, struct job *job, const struct cache_value *value);

/*
 * The answer is the job's own: to its own request, or to that of a leader that has left it its run, proved to be the same content. What the
 * leader really asked for, or how long it would have waited, is nobody else's business.
 */
bool answer_is_own(const struct job *job, const struct dispatch *dispatch, uint32_t slot,
                   const struct result_group *group);
/* The worker's answer, for the job and its followers; stored in the cache when its digest proves right. */
void answer_result(struct broker *broker, struct job *job, struct dispatch *dispatch, struct result_group *group);
/*
 * All steps of an ensemble's job are done (JOB_STEPS): `whole` is the result as one worker would have sent it. proved: it is what the key of the job's
 * single flight says, so followers get it and the cache keeps it. Takes the message.
 */
void answer_whole(struct broker *broker, struct job *job, struct shared_message *whole, bool proved);
/* The job will end with an error that is its own affair: whoever followed it runs by itself. */
void answer_apart(struct broker *broker, struct job *job);
/* An error that the broker finds; followers of a lost job share its fate, others take the job's place. */
void answer_error(struct broker *broker, struct job *job, enum pen_status status, const char *text);

/* Owners (course.h), of a job that ends: what it holds goes back, it is counted and DONE; its record is the owner's. */
void answer_retire(struct broker *broker, struct job *job, enum pen_status status);
/* The owner of what clients send. */
extern const struct job_owner answer_client;

/* Ends the waiting jobs of a lane that nobody can run; the lane may be gone afterwards. */
void answer_lane_unserved(struct broker *broker, struct lane *lane);

#endif
