/*
 * neighbour_talk.h - what brokers of one pool say to each other: how busy each of them is. Messages: proto/PROTOCOL.md,
 * "Neighbours".
 *
 * This broker asks: it connects to each of its --neighbours as a client would, says NEIGHBOUR at each beat, and hears the
 * same back. It answers whoever says NEIGHBOUR at its own port for clients. Where keys are asked for, that takes the role
 * admin.
 * Threads: owner.
 */
#ifndef NEIGHBOUR_TALK_H
#define NEIGHBOUR_TALK_H

#include "broker_state.h"

/* Connects to all of --neighbours; key: the broker's own, NULL = none. INVALID: the list is none. */
enum pen_status neighbours_open(struct broker *broker, void *context, const struct key_pair *key,
                                struct pen_error *reterr);
void neighbours_close(struct broker *broker);

/* Where a client goes that has just come: an endpoint, borrowed; NULL: it stays. Counts it. */
const char *neighbours_place(struct broker *broker);

/* Due from time to time: measures the broker's own load and tells it. */
void neighbours_beat(struct broker *broker);
/* Reads what they have answered. An event of its own: effects begin and end in here. */
void neighbours_read(struct broker *broker);
/* True when its sender may speak for a broker: without keys everybody may, with keys an admin. */
bool neighbours_may_ask(struct broker *broker, const struct message *message);
/* NEIGHBOUR came to the port for clients. A broker without --neighbours is nobody's neighbour: UNSUPPORTED. */
void neighbours_asked(struct broker *broker, const struct message *message, const struct envelope *env,
                      const uint8_t *meta);

#endif
