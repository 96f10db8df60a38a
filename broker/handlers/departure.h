/*
 * departure.h - how peers leave: clients, workers, peers whose key is no longer allowed, and at last the broker itself
 * (drain).
 * Threads: owner.
 */
#ifndef DEPARTURE_H
#define DEPARTURE_H

#include "broker_state.h"

/* EFFECT_CLIENT_GONE, EFFECT_WORKER_ENDED */
bool departure_client_gone(struct broker *broker, struct effect *effect);
bool departure_worker_ended(struct broker *broker, struct effect *effect);
/* EFFECT_WORKER_LEFT: queues again what the worker held; these jobs are suspects if the worker was lost. The last
   subscriber frees the worker. */
bool departure_take_back(struct broker *broker, struct effect *effect);
bool departure_worker_left(struct broker *broker, struct effect *effect);
/* Gives up workers whose connection has ended, once all their messages have been read. */
void departure_tick(struct broker *broker);

/* The ports tell of peers that are found to have gone when what waits for them is to be sent. Call it once. */
void departure_watch(struct broker *broker);
/* Sends what waits at the ports. An event of its own: call it between events, before the loop sleeps. */
void departure_flush(struct broker *broker);

/* Some connection was lost: looks among the workers / clients for its peer. */
void broker_hint_workers(struct broker *broker, int fd);
void broker_hint_clients(struct broker *broker, int fd);

/* While draining: tells the client, so that it can use another of its brokers. */
void broker_tell_drain(struct broker *broker, struct session *session);
/* Begins to drain: after SIGTERM, or as part of handling `penstock drain`. */
void broker_drain(struct broker *broker);
void departure_drain(struct broker *broker);
bool broker_drained(const struct broker *broker); /* nothing is left to answer or to send: the program may end */

/* Ends a connection's session, after the grace window or at once. Its jobs are cancelled. */
void broker_session_end(struct broker *broker, struct session *session, const char *reason);
/* The worker leaves, because it said so or was told to; EFFECT_WORKER_LEFT frees its record. Call it once for each
   worker. */
void broker_worker_leave(struct broker *broker, struct worker *worker);
/* The worker was lost without a goodbye: its jobs are suspects. Does nothing when the worker is leaving already. */
void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss);

/* The file of --keys has changed: ends the connections of peers whose key is no longer allowed. */
void broker_keys_changed(struct broker *broker);

#endif
