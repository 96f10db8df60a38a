/*
 * client_handler.h - what clients say: hello, submit, cancel, acknowledge, ask, goodbye.
 * Threads: owner.
 */
#ifndef CLIENT_HANDLER_H
#define CLIENT_HANDLER_H

#include "broker_state.h"

/* Handles one message of the client ROUTER; may move its frames out. The broker survives any content. */
void client_message(struct broker *broker, struct message *message);

/* Redis has answered a question of the cache. */
void client_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);

/* A SUBMIT of a known client, with its payload or with the announcement of it; takes the frames. */
void client_submit(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                   const uint8_t *meta);

#endif
