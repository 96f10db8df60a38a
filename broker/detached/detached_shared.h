/*
 * detached_shared.h - the part of the detached store in Redis: what this broker hands over, has taken, and what its clients wait for.
 *
 * Redis has the last word: a job is accepted, taken, done or cancelled when a script there says so (streams_script.h). What is taken is an entry of the
 * detached store like any other until it is done, given back or lost. All of it may be called when there is no such part.
 * Threads: owner.
 */
#ifndef DETACHED_SHARED_H
#define DETACHED_SHARED_H

#include "detached_entry.h"

void shared_close(struct detached_store *detached); /* gives back what was taken and has not run */

/* Hands an ACCEPTING entry over; the client is answered when Redis has it. UNAVAILABLE: Redis is gone. */
enum pen_status shared_accept(struct broker *broker, struct entry *entry, const char *model, struct pen_error *reterr);
/* Asks for a result, or with `state` for what becomes of the job; answered when it is known. */
void shared_fetch(struct broker *broker, struct session *session, const struct envelope *env, struct job_id wanted,
                  bool state);
enum pen_status shared_cancel(struct broker *broker, struct session *session, uint64_t serial, struct job_id id,
                              const struct owner *asker, bool *ret_later, struct pen_error *reterr);

void shared_settle(struct broker *broker, struct entry *entry); /* a taken job is done: its reply goes to Redis */
void shared_expire(struct broker *broker, struct entry *entry); /* its time is over: Redis forgets it by itself */
void shared_look(struct broker *broker);                        /* other models may be run now */
void shared_tick(struct broker *broker);

#endif
