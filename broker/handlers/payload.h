/*
 * payload.h - a payload that came in chunks is complete (EFFECT_PAYLOAD_HERE): handles it as a message that came in one
 * piece.
 * Threads: owner.
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include "effect.h"

bool payload_here(struct broker *broker, struct effect *effect);

#endif
