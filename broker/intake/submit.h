/*
 * submit.h - one SUBMIT on its way to becoming a job: admitted, answered from the cache, joined to an identical job, or queued.
 * Threads: owner.
 */
#ifndef SUBMIT_H
#define SUBMIT_H

#include "broker_state.h"

/* env and meta have been decoded from frame 0 of the message; its frames may be moved out. */
void submit_job(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                struct message *message);
/* The same for a detached job: no client is answered; the returned status says what became of it. */
enum pen_status submit_try(struct broker *broker, struct session *session, const struct envelope *env,
                           const uint8_t *meta, struct message *message, struct pen_error *reterr);
/* Judges the parked jobs again, because --restart-wait is over or the broker drains. */
void submit_waiting(struct broker *broker);
/* Due from time to time: those whose wait is over end; once a model is known, all are judged again. */
void submit_parked_tick(struct broker *broker);
/* EFFECT_WORKER_JOINED, EFFECT_WORKER_UPDATED: judges the parked jobs again, because a worker may offer their model
   now. */
bool submit_worker_came(struct broker *broker, struct effect *effect);
/* Answers a parked job CANCELLED. Does nothing for an id that is not parked. */
void submit_cancel(struct broker *broker, struct session *session, const struct envelope *env);

/* PEN_ERR_TOO_LARGE: a job of so many bytes never has room here, not even in an empty queue. */
enum pen_status submit_fits(const struct options *options, size_t bytes, struct pen_error *reterr);
/* Whether a job of so many bytes may come in: checks its size, drain, waiting bytes, memory, quota and unread
   replies. *ret_wait_us, set only beyond a quota: when there is room again. */
enum pen_status submit_room(struct broker *broker, const struct session *session, size_t bytes, uint64_t *ret_wait_us,
                            struct pen_error *reterr);

/* Whether there is memory for a job: `held` bytes are in memory already, `wanted` bytes will be allocated. Counts a
   refusal. */
enum pen_status submit_memory(struct broker *broker, uint64_t held, uint64_t wanted, struct pen_error *reterr);

#endif
