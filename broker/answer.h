/*
 * answer.h - the end of a job: its one final RESULT, what is kept of it, and what becomes of its twins.
 * Threads: owner.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "broker.h"
#include "patch.h"

/* A group of a worker's RESULT. `frames`: its raw frames, moved out. */
struct result_group {
    struct envelope env;
    const uint8_t *meta;
    struct result_facts facts;
    bool refused; /* against the contract: only its status counts */
    zmq_msg_t *header;
    zmq_msg_t *frames;
};

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
 * flight says, so followers get it and the cache keeps it. Takes the parcel.
 */
void answer_whole(struct broker *broker, struct job *job, struct parcel *whole, bool proved);
/* The job will end with an error that is its own affair: whoever followed it runs by itself. */
void answer_apart(struct broker *broker, struct job *job);
/* An error that the broker finds; followers of a lost job share its fate, others take the job's place. */
void answer_error(struct broker *broker, struct job *job, enum pen_status status, const char *text);

/* Ends the waiting jobs of a lane that nobody can run; the lane may be gone afterwards. */
void answer_lane_unserved(struct broker *broker, struct lane *lane);

/* A repeated job id whose reply is still kept. */
void answer_again(struct broker *broker, struct session *session, struct job *job);
/* Sends what had to wait because the client did not read. */
void answer_unsent(struct broker *broker, struct session *session);

/* Detached jobs: a reply that says why; "it is accepted"; a stored reply under another id. A client that has gone asks again. */
struct parcel *answer_parcel_error(struct job_id id, enum pen_status status, const char *text);
void answer_accepted(struct broker *broker, struct session *session, struct job_id id);
void answer_stored(struct broker *broker, struct session *session, struct job_id id, struct parcel *stored);

#endif
