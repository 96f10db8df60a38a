/*
 * departure.h - who goes: clients, workers, those whose key is no longer allowed, and at last the broker itself (drain).
 * Threads: owner.
 */
#ifndef DEPARTURE_H
#define DEPARTURE_H

#include "broker_state.h"

/* EFFECT_CLIENT_GONE, EFFECT_WORKER_ENDED */
bool departure_client_gone(struct broker *broker, struct effect *effect);
bool departure_worker_ended(struct broker *broker, struct effect *effect);
/* EFFECT_WORKER_LEFT: what it held is queued again, under suspicion if it was lost; the last to hear frees it. */
bool departure_take_back(struct broker *broker, struct effect *effect);
bool departure_worker_left(struct broker *broker, struct effect *effect);
/* Workers whose connection has ended are given up when all that they said was read. */
void departure_tick(struct broker *broker);

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
/* The worker goes, by its own word or another's; its record does with EFFECT_WORKER_LEFT. Once for each. */
void broker_worker_leave(struct broker *broker, struct worker *worker);
/* The same without a word: its jobs are suspects. Nothing when it is going already. */
void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss);

/* The file of --keys has changed: whoever may no longer come in is shown out. */
void broker_keys_changed(struct broker *broker);

#endif
