/*
 * client_handler.h - what clients say: hello, submit, cancel, acknowledge, ask, goodbye.
 * Threads: owner.
 */
#ifndef CLIENT_HANDLER_H
#define CLIENT_HANDLER_H

#include "broker_state.h"

/* Handles one message of the client ROUTER; may move its frames out. Whatever it holds, the broker survives it. */
void client_message(struct broker *broker, struct message *message);

/* The answer to a question that was asked of Redis. */
void client_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);

/* A SUBMIT of a known client, whole or announced; takes the frames. */
void client_submit(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                   const uint8_t *meta);

#endif
