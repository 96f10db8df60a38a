/*
 * door.h - answers peers that say hello at the wrong one of the broker's two ports, or with a key that has not the role
 * for it.
 *
 * The answer is a WELCOME with another status than OK; clients and workers of all versions show it to a person.
 * Threads: owner.
 */
#ifndef DOOR_H
#define DOOR_H

#include "broker_state.h"

/* A WORKER_HELLO at the port for clients, or a CLIENT_HELLO at the port for workers: answers INVALID and says where
   the other port is. */
void door_wrong(struct broker *broker, struct port *port, uint32_t peer);

/* PEN_ERR_DENIED and a sentence unless the identity (NULL: not on the list) may say hello at that port. Without a
   list of keys every peer may. */
enum pen_status door_check(const struct broker *broker, const struct port *port, const struct identity *identity,
                           struct pen_error *reterr);

/* A message that a peer should not have sent is counted and logged. */
void door_bad_message(struct broker *broker, const struct port *port, const char *reason);

enum door_word {
    DOOR_OPEN,   /* the message may be handled: *ret_env and *ret_meta are filled */
    DOOR_SHUT,   /* the peer has been answered; nothing is left to do */
    DOOR_BROKEN, /* *reterr says what is wrong; *ret_env has the fields that could be read */
};
/* Reads the envelope of a message that came in at that port. */
enum door_word door_envelope(struct broker *broker, struct port *port, struct message *message,
                             struct envelope *ret_env, const uint8_t **ret_meta, struct pen_error *reterr);

#endif
