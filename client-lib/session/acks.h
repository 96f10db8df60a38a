/*
 * acks.h - results that the broker may forget: counted as they come, acknowledged together.
 *
 * All calls need the client's lock and the socket (core.h). Threads: owner.
 */
#ifndef ACKS_H
#define ACKS_H

#include "core.h"

/* A result has come: its ACK is due soon, at session.acknowledge_us. */
void acks_count(struct pen_client *client, const struct pen_result *result, uint64_t now_us);
/* There are so many that they are acknowledged at once. */
bool acks_many(const struct session *session);
/* Says up to which job every answer is here. Without memory it is said later. */
void acks_send(struct pen_client *client, uint64_t now_us);

#endif
