/*
 * worker_handler.h - what workers say: hello, results, heartbeats, changes of their models, leaving.
 * Threads: owner.
 */
#ifndef WORKER_HANDLER_H
#define WORKER_HANDLER_H

#include "broker_state.h"

/* Handles one message of the worker ROUTER; may move its frames out. The broker survives any content. */
void worker_message(struct broker *broker, struct message *message);

/* Asks the worker to finish and leave (`penstock drain NAME`). */
void worker_drain_told(struct broker *broker, struct worker *worker);

/* EFFECT_WORKER_JOINED: takes over or cancels the jobs that the worker says it runs; then welcomes it. */
bool worker_adopt(struct broker *broker, struct effect *effect);
bool worker_welcome(struct broker *broker, struct effect *effect);

/* A RESULT message: takes the frames. */
void worker_result(struct broker *broker, struct worker *worker, struct message *message);
/* The broker has no memory for the payload that the worker announced: the job ends BUSY, unless its hedge still
   runs. */
void worker_result_dropped(struct broker *broker, struct worker *worker, const struct envelope *env);

#endif
