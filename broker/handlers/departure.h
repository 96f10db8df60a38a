/*
 * departure.h - who goes: clients, workers, those whose key is no longer allowed, and at last the broker itself (drain).
 * Threads: owner.
 */
#ifndef DEPARTURE_H
#define DEPARTURE_H

#include "broker_state.h"

/* EFFECT_CLIENT_GONE, EFFECT_WORKER_ENDED */
void departure_client_gone(struct broker *broker, struct effect *effect);
void departure_worker_ended(struct broker *broker, struct effect *effect);

/* A connection was lost somewhere: look for it among workers / clients. */
void broker_hint_workers(struct broker *broker, int fd);
void broker_hint_clients(struct broker *broker, int fd);

/* While draining: the client is told, so that one with several brokers goes to another. */
void broker_tell_drain(struct broker *broker, struct session *session);
/* SIGTERM; `penstock drain`, as a part of its message. */
void broker_drain(struct broker *broker);
void departure_drain(struct broker *broker);
bool broker_drained(const struct broker *broker); /* nothing is left to answer, or to send: the program may end */

/* Drops a connection's session from life: grace first, or at once. Its jobs are cancelled. */
void broker_session_end(struct broker *broker, struct session *session, const char *reason);
bool broker_worker_over(const struct broker *broker, const struct worker *worker); /* it ended, and all was read */
/* The worker is gone: its jobs are queued again or answered. */
void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss);

/* Takes a worker out of the fleet; jobs it held are queued again, with or without blame for its end. */
void broker_worker_leave(struct broker *broker, struct worker *worker, enum blame blame);
/* The file of --keys has changed: whoever may no longer come in is shown out. */
void broker_keys_changed(struct broker *broker);

#endif
