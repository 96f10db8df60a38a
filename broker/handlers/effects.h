/*
 * effects.h - drains the queue of what follows from events (state/effect.h): every handler of a message and the timers end with it.
 * Threads: owner.
 */
#ifndef EFFECTS_H
#define EFFECTS_H

#include "broker_state.h"

/* Runs what was posted, and what that posts, until the queue is empty. True: there was something. */
bool effects_drain(struct broker *broker);

#endif
