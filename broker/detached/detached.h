/*
 * detached.h - detached jobs: a client submits one and may leave. The broker accepts the job when it is in the journal,
 * runs it without its client, and keeps the result until somebody fetches it or it is too old.
 *
 * A detached job belongs to a session that the broker makes itself, one per tenant, without a connection. The job
 * starts when a worker offers its model. It waits while no worker does, and while the broker stops. Its result is final
 * when it is in the journal.
 * Threads: owner.
 */
#ifndef DETACHED_H
#define DETACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "broker_state.h"

struct journal;
struct owner;

#define DETACHED_UUID_FIRST                                                                                            \
    (UINT64_MAX - TENANTS_MAX) /* uuids of the broker's own sessions: no client may say hello with one of them */
#define DETACHED_JOBS_MAX 100000u

/* Reads the journal at `path`, writes it anew with the records that still count, and appends to it from then on. A
   file that is no journal, or that a later version wrote, is left as it is. */
enum pen_status detached_open(struct broker *broker, const char *path, struct pen_error *reterr);
/* Keeps detached jobs in the Redis of --detached. Where there is a journal as well, Redis is asked first. */
enum pen_status detached_open_redis(struct broker *broker, struct pen_error *reterr);
/* The same for an open journal (tests): `bytes` are the content of its file. Fails, as detached_open does, for a
   form that only a later version writes. */
enum pen_status detached_open_journal(struct broker *broker, struct journal *journal, const uint8_t *bytes,
                                      size_t size);
void detached_free(struct detached_store *detached); /* NULL is fine */
/* Another wall clock (tests); it counts microseconds since 1970. */
void detached_clock(struct detached_store *detached, uint64_t (*wall)(void));

/* Handles a SUBMIT with DETACHED, which is answered when the job is in the journal, or one with FETCH, which is
   answered when the job it names is done. */
void detached_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message);
void detached_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta);

/* The client cancels that fetch. True: the fetch was waiting, and was answered CANCELLED. */
bool detached_cancel_fetch(struct broker *broker, struct session *session, const struct envelope *env);

/*
 * Cancels a waiting detached job by its id; NOT_FOUND: no such job waits. asker: the job must be the asker's (DENIED);
 * NULL: an administrator. *ret_later: the reply to `serial` is sent later, when the outcome is known.
 */
enum pen_status detached_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                                const struct owner *asker, bool *ret_later, struct pen_error *reterr);
bool detached_owned(const struct broker *broker, struct job_id id, const struct owner *asker);
/* Called at the end of each detached job. */
extern const struct job_owner detached_owner;
/* Starts waiting detached jobs that can run. */
void detached_start(struct broker *broker);
/* EFFECT_WORKER_JOINED, EFFECT_WORKER_UPDATED: starts waiting jobs, for a worker may offer their model now. */
bool detached_worker_came(struct broker *broker, struct effect *effect);
/* Handles what the journal has finished, and drops jobs that are too old. */
void detached_tick(struct broker *broker);
int detached_descriptor(
    const struct detached_store *detached); /* readable when the journal has news; -1: there is none */
int detached_redis_descriptor(const struct detached_store *detached); /* the same for Redis */
uint64_t detached_count(const struct detached_store *detached);       /* NULL is fine */

#endif
