/*
 * detached.h - detached jobs: accepted when they are in the journal, run without their client, kept with their results until they are fetched
 * or too old.
 *
 * A detached job lives in a session of the broker's own, one per tenant, that no connection belongs to. It starts when a worker offers its
 * model; what cannot be run now (no worker, a broker that stops) waits. Its result is final when the journal has it.
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
    (UINT64_MAX - TENANTS_MAX) /* sessions of the broker's own: no client may say hello with these */
#define DETACHED_JOBS_MAX 100000u

/* Reads the journal at `path`, writes it anew with what still counts, and goes on with it. A file that is no journal, or one of a later version, is left as it is. */
enum pen_status detached_open(struct broker *broker, const char *path, struct pen_error *reterr);
/* Redis keeps them: that of --detached. Beside a journal it is asked first. */
enum pen_status detached_open_redis(struct broker *broker, struct pen_error *reterr);
/* The same over an open journal (tests): `bytes` are what the file held. Fails, as detached_open does, on what only a later version writes. */
enum pen_status detached_open_journal(struct broker *broker, struct journal *journal, const uint8_t *bytes,
                                      size_t size);
void detached_free(struct detached_store *detached); /* NULL is fine */
/* Another wall clock (tests); it counts microseconds since 1970. */
void detached_clock(struct detached_store *detached, uint64_t (*wall)(void));

/* A SUBMIT with DETACHED: answered when the journal has it. A SUBMIT with FETCH: answered when the job it names is done. */
void detached_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message);
void detached_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta);

/* The client does not want that fetch's answer any more: true when it waited, and was told CANCELLED. */
bool detached_cancel_fetch(struct broker *broker, struct session *session, const struct envelope *env);

/*
 * One that waits, by its id; NOT_FOUND: no such job is still to run. asker: it must be theirs (DENIED); NULL: an administrator. *ret_later: the
 * reply to `serial` will be sent when it is known.
 */
enum pen_status detached_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                                const struct owner *asker, bool *ret_later, struct pen_error *reterr);
bool detached_owned(const struct broker *broker, struct job_id id, const struct owner *asker);
/* Who is told the end of detached jobs. */
extern const struct job_owner detached_owner;
/* A worker came: what waits may start. */
void detached_start(struct broker *broker);
/* What the journal has done, what is too old. */
void detached_tick(struct broker *broker);
int detached_descriptor(
    const struct detached_store *detached); /* readable when the journal has news; -1: there is none */
int detached_redis_descriptor(const struct detached_store *detached); /* the same of Redis */
uint64_t detached_count(const struct detached_store *detached);       /* NULL is fine */

#endif
