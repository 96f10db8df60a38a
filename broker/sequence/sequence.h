/*
 * sequence.h - jobs that belong together because a worker keeps state between them: one worker, one after the other, in the order they came.
 *
 * A sequence is known by its client, its id and its model. It is bound to the worker that gets its first job. Whatever job of it does not end well ends
 * it, for who goes on would go on from nobody knows where; so do silence, and the loss, drain or unloading of its worker. Its later jobs are told why,
 * for ten minutes, or until the room is needed for open ones.
 * Threads: owner.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include "admit.h"
#include "broker_state.h"

#define SEQUENCES_MAX         65536u
#define SEQUENCES_PER_SESSION 4096u
#define SEQUENCES_PER_TENANT  16384u /* but for the default one, which nobody has to himself */

struct sequence;
struct sequences;

struct sequences *sequences_new(void);            /* NULL without memory */
void sequences_free(struct sequences *sequences); /* NULL is fine */

/* The id of the sequence that the job belongs to: the envelope's, or one made of JobMeta.sequence; 0 = none. */
uint64_t sequence_id_of(const struct envelope *env, const Penstock__JobMeta *meta);

/* Before a job is judged: one of an open sequence goes to the version that it began with. */
void sequence_bind_version(const struct broker *broker, const struct session *session, const struct envelope *env,
                           Penstock__JobMeta *meta);
/*
 * May this job be the next of its sequence? A first one opens it. One that says which job it follows (JobMeta.sequence_after) ends the sequence when that
 * is not the newest here: it would go on from a wrong state. Jobs without a sequence, of models without state: OK.
 */
enum pen_status sequence_admit(struct broker *broker, struct session *session, const struct envelope *env,
                               const Penstock__JobMeta *meta, const struct admission *admission,
                               struct pen_error *reterr);
/* A job that was refused after all. */
void sequence_refused(struct broker *broker, struct session *session, const struct envelope *env,
                      const Penstock__JobMeta *meta, const char *text);

/* The job (of a model with state) is there: queued at once, or behind the one before it. */
void sequence_place(struct broker *broker, struct job *job);
/* How jobs of models with state run. */
extern const struct job_course sequence_course;
/* EFFECT_SEQUENCE_MOVES */
bool sequence_moves(struct broker *broker, struct effect *effect);

/* A run that nobody waits for has failed, as that of a job that was sent again: the worker has dropped the state with it. env: of its result. */
void sequence_run_failed(struct broker *broker, const struct worker *worker, const struct envelope *env);

/* EFFECT_WORKER_DRAINS, EFFECT_WORKER_LEFT: those whose state it keeps end. */
bool sequence_worker_drains(struct broker *broker, struct effect *effect);
bool sequence_worker_left(struct broker *broker, struct effect *effect);
/* EFFECT_WORKER_UPDATED: those end whose model it does not offer any more. */
bool sequence_worker_updated(struct broker *broker, struct effect *effect);
/* Its sequences end and are forgotten. */
void sequences_session_gone(struct broker *broker, const struct session *session);
/* Those that were silent for too long end; those that ended long ago are forgotten. */
void sequences_tick(struct broker *broker);
uint64_t sequences_next_us(const struct broker *broker); /* when that is due; UINT64_MAX = nothing is */
uint64_t sequences_open(const struct broker *broker);    /* how many */

#endif
