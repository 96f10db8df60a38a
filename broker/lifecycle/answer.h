/*
 * answer.h - the end of a job: sends its one final RESULT, keeps the reply, and answers or restarts identical jobs that
 * follow it.
 * Threads: owner.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "broker_state.h"
#include "result_group.h"

/* Refuses a SUBMIT that never became a job. retry_after_us 0: a tenth of a second is told instead, for errors where
   trying again can help. */
void answer_refusal(struct broker *broker, struct session *session, const struct envelope *env, const char *model,
                    uint64_t retry_after_us, const struct pen_error *error);
/* The same with a status and a sentence, for a message whose model is unknown or does not matter. */
void answer_refuse(struct broker *broker, struct session *session, const struct envelope *env, enum pen_status status,
                   const char *text);
/* Answers a SUBMIT that never became a job with a value from the cache. */
void answer_hit(struct broker *broker, struct session *session, const struct envelope *env, struct model *model,
                const struct cache_value *value, uint64_t started_us);
/* Answers a job that waited for Redis, and its followers, with a value from the cache. */
void answer_job_hit(struct broker *broker, struct job *job, const struct cache_value *value);

/*
 * True when the answer belongs to this job: the run was for its own request, or for a former leader's request with
 * proved equal content. Otherwise the run was for another job, whose request and patience are not this client's
 * business.
 */
bool answer_is_own(const struct job *job, const struct dispatch *dispatch, uint32_t slot,
                   const struct result_group *group);
/* Answers the job and its followers with the worker's result; stores it in the cache when the worker's digest proves
   the content. */
void answer_result(struct broker *broker, struct job *job, struct dispatch *dispatch, struct result_group *group);
/*
 * All steps of an ensemble's job are done (JOB_STEPS): `whole` is the result as one worker would have sent it. proved:
 * the digests match the key of the job's single flight, so followers get the result and the cache keeps it. Takes the
 * message.
 */
void answer_whole(struct broker *broker, struct job *job, struct shared_message *whole, bool proved);
/* The job will end with an error that concerns only this job: its followers run by themselves. */
void answer_apart(struct broker *broker, struct job *job);
/* Ends a job with an error that the broker found. Followers of a lost job get the same error; after other errors a
   follower takes the job's place. */
void answer_error(struct broker *broker, struct job *job, enum pen_status status, const char *text);

/* For owners (course.h): the job ends. Gives back what it holds, counts it and makes it DONE; the owner then frees
   or keeps its record. */
void answer_retire(struct broker *broker, struct job *job, enum pen_status status);
/* The owner of jobs that clients send. */
extern const struct job_owner answer_client;

#endif
