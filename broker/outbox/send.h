/*
 * send.h - sends clients and workers messages without payloads (an envelope with a meta), counts their bytes; greetings
 * and refusals.
 * Threads: owner.
 */
#ifndef SEND_H
#define SEND_H

#include "broker_state.h"

/* Sends to a session or worker and counts the bytes; false = the peer is gone (for a session this is recorded). */
bool broker_send_client(struct broker *broker, struct session *session, struct envelope *env, const void *meta,
                        size_t bytes);
bool broker_send_worker(struct broker *broker, struct worker *worker, struct envelope *env, const void *meta,
                        size_t bytes);

/* Sends CANCEL: the worker may stop the job that it runs under this id. */
void broker_cancel(struct broker *broker, struct worker *worker, struct job_id id);

/* The client's connection is gone: its grace window begins. */
void broker_client_gone(struct broker *broker, struct session *session);
/* Sends the client a PING when the answer would tell how far it has read. */
void broker_mark_client(struct broker *broker, struct session *session);

/*
 * A message to the worker could not be sent: its connection has ended. The worker is given up when all that it sent
 * before has been read, such as answers or its GOODBYE; at once when nothing can wait to be read.
 */
void broker_worker_ended(struct broker *broker, struct worker *worker);

/* Tells a peer of another major version, once, that it cannot be served; its messages are ignored from then on. */
void broker_refuse_version(struct broker *broker, struct port *port, struct ignored *ignored, uint32_t peer,
                           const char *text);
bool broker_ignores(const struct ignored *ignored, uint32_t peer); /* the peer was told already */
/* WELCOME with the broker's settings, or with a reason. */
void broker_welcome(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status, const char *text);
/* The same to a client that is welcome; elsewhere: the broker to which it had better go, NULL = it is at the right one. */
void broker_welcome_client(struct broker *broker, uint32_t peer, const char *elsewhere);
/* Sends RESUME: the broker does not know or trust the peer any more, so the peer must say hello again. */
void broker_resume(struct broker *broker, struct port *port, uint32_t peer);
/* The same to a client that follows: it is to go to that broker. */
void broker_resume_at(struct broker *broker, struct session *session, const char *endpoint);

/* Answers a question that could not be answered at once. */
void send_control_reply(struct broker *broker, struct session *session, uint64_t serial, enum pen_status status,
                        const char *text);

#endif
