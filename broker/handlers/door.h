/*
 * door.h - the sentences for who knocks at the wrong one of the broker's two ports, or with a key that has no business there.
 *
 * Each is answered with a WELCOME of another status than OK, which clients and workers of all versions show to a person.
 * Threads: owner.
 */
#ifndef DOOR_H
#define DOOR_H

#include "broker_state.h"

/* A WORKER_HELLO at the port for clients, a CLIENT_HELLO at the port for workers: INVALID, and where the other port is. */
void door_wrong(struct broker *broker, struct port *port, uint32_t peer);

/* PEN_ERR_DENIED and a sentence unless the identity (NULL: not on the list) may say hello at that port. Without a list everybody may. */
enum pen_status door_check(const struct broker *broker, const struct port *port, const struct identity *identity,
                           struct pen_error *reterr);

/* A message that a peer should not have sent is counted and logged. */
void door_bad_message(struct broker *broker, const struct port *port, const char *reason);

enum door_word {
    DOOR_OPEN,   /* *ret_env and *ret_meta are the message's */
    DOOR_SHUT,   /* it was told what it is to be told */
    DOOR_BROKEN, /* *reterr says what is wrong; *ret_env is what could be read of it */
};
/* The envelope of a message that came in at that port. */
enum door_word door_envelope(struct broker *broker, struct port *port, struct message *message,
                             struct envelope *ret_env, const uint8_t **ret_meta, struct pen_error *reterr);

#endif
