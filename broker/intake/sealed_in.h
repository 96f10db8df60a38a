/*
 * sealed_in.h - messages whose payloads came as sealed memory (proto/PROTOCOL.md, "On one host") become whole ones: the
 * raw frames are views of that memory. All that follows cannot tell them from frames that came as bytes.
 * Threads: owner.
 */
#ifndef SEALED_IN_H
#define SEALED_IN_H

#include "broker_state.h"
#include "port.h"

/* False: the memory is not there, or cannot be taken. The peer was asked to begin its transfers anew, and its socket is
   closed: forget the message. A message without such payloads stays as it is. */
bool sealed_in_whole(struct broker *broker, struct transfer_end *end, struct message *message);

#endif
