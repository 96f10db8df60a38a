/*
 * detached_shared.h - detached jobs in Redis: those that this broker hands over, those that it has taken, and the
 * questions of its clients.
 *
 * Redis decides: a job is accepted, taken, done or cancelled when a script there says so (streams_script.h). A job that
 * this broker has taken is an entry of the detached store like any other, until it is done, given back or lost. All
 * these functions may be called when Redis is not used.
 * Threads: owner.
 */
#ifndef DETACHED_SHARED_H
#define DETACHED_SHARED_H

#include "detached_entry.h"

void shared_close(struct detached_store *detached); /* gives back the taken jobs that have not run */

/* Hands an ACCEPTING entry to Redis; the client is answered when Redis has it. UNAVAILABLE: Redis is gone. */
enum pen_status shared_accept(struct broker *broker, struct entry *entry, const char *model, struct pen_error *reterr);
/* Asks Redis for a job's reply, or how far the job is; the client is answered when Redis has answered. */
void shared_fetch(struct broker *broker, struct session *session, const struct envelope *env, struct job_id wanted,
                  enum watch_for what);
enum pen_status shared_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                              const struct owner *asker, bool *ret_later, struct pen_error *reterr);

void shared_settle(struct broker *broker, struct entry *entry); /* a taken job is done: sends its reply to Redis */
void shared_expire(struct broker *broker, struct entry *entry); /* its time is over; Redis forgets it by itself */
void shared_look(struct broker *broker);                        /* the models that workers offer have changed */
void shared_tick(struct broker *broker);

#endif
