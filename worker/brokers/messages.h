/*
 * messages.h - handles the messages of a broker: jobs, cancellations, chunks and their credits, orders, signs of life.
 *
 * Threads: owner - the network thread.
 */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "serve.h"

/* Handles what has come from each broker, a burst at most. True when there was anything. */
bool messages_receive(struct serve *serve, uint64_t now_us);

/* Answers jobs whose deadline passed before all of their payload had come. */
void messages_expire(struct serve *serve, uint64_t now_us);

#endif
