/*
 * worker_handler.h - what workers say: hello, results, heartbeats, changes of their models, leaving.
 * Threads: owner.
 */
#ifndef WORKER_HANDLER_H
#define WORKER_HANDLER_H

#include "broker_state.h"

/* Handles one message of the worker ROUTER; may move its frames out. Whatever it holds, the broker survives it. */
void worker_message(struct broker *broker, struct message *message);

/* Asks the worker to finish and leave (`penstock drain NAME`). */
void worker_drain_told(struct broker *broker, struct worker *worker);

/* A RESULT message: takes the frames. */
void worker_result(struct broker *broker, struct worker *worker, struct message *message);
/* There was no memory for the payload that the worker announced: its job ends BUSY, unless a hedge of it runs. */
void worker_result_dropped(struct broker *broker, struct worker *worker, const struct envelope *env);

#endif
