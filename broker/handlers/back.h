/*
 * back.h - what workers say: hello, results, heartbeats, changes of their models, leaving.
 * Threads: owner.
 */
#ifndef BACK_H
#define BACK_H

#include "broker_state.h"

/* Handles one message of the worker ROUTER; may move its frames out. Whatever it holds, the broker survives it. */
void back_message(struct broker *broker, struct message *message);

/* Asks the worker to finish and leave (`penstock drain NAME`). */
void back_drain(struct broker *broker, struct worker *worker);

/* A RESULT message: takes the frames. */
void back_result(struct broker *broker, struct worker *worker, struct message *message);
/* There was no memory for the payload that the worker announced: its job ends BUSY, unless a twin of it runs. */
void back_result_dropped(struct broker *broker, struct worker *worker, const struct envelope *env);

#endif
