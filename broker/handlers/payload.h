/*
 * payload.h - a payload that came in chunks goes where it would have gone in one piece: EFFECT_PAYLOAD_HERE.
 * Threads: owner.
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include "effect.h"

bool payload_here(struct broker *broker, struct effect *effect);

#endif
