/*
 * send.h - what goes to clients and workers besides payloads: one envelope with a meta, accounted for; greetings and refusals.
 * Threads: owner.
 */
#ifndef SEND_H
#define SEND_H

#include "broker_state.h"

/* Sends to a session or worker and accounts for it; false = gone (and taken note of, for sessions). */
bool broker_send_client(struct broker *broker, struct session *session, struct envelope *env, const void *meta,
                        size_t bytes);
bool broker_send_worker(struct broker *broker, struct worker *worker, struct envelope *env, const void *meta,
                        size_t bytes);

/* CANCEL: nobody waits any more for what the worker runs under this id. */
void broker_cancel(struct broker *broker, struct worker *worker, struct job_id id);

/* Its connection proved to be gone: the grace window begins. */
void broker_client_gone(struct broker *broker, struct session *session);
/* PINGs the client when the answer would tell how far it has read. */
void broker_mark_client(struct broker *broker, struct session *session);

/*
 * A message to it could not be sent: its connection has ended. It is given up when what it had said before that was read, which may be its answers, or
 * its GOODBYE: at once where nothing can wait to be read.
 */
void broker_worker_ended(struct broker *broker, struct worker *worker);

/* Tells a peer of another major version so, once; it is ignored from then on. */
void broker_refuse_version(struct broker *broker, struct port *port, struct ignored *ignored, uint32_t peer,
                           const char *text);
bool broker_ignores(const struct ignored *ignored, uint32_t peer); /* it was told so */
/* WELCOME with the broker's settings, or with a reason. */
void broker_welcome(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status, const char *text);
/* RESUME: the peer is not known, or not trusted any more, and is to say hello again. */
void broker_resume(struct broker *broker, struct port *port, uint32_t peer);

/* A reply that comes later than its question. */
void send_control_reply(struct broker *broker, struct session *session, uint64_t serial, enum pen_status status,
                        const char *text);

#endif
