/*
 * shadow_guard.h - a label that leaves a version again by itself, because the version's answers fail, take too long, or
 * differ too often from those of the others.
 * Threads: owner.
 */
#ifndef SHADOW_GUARD_H
#define SHADOW_GUARD_H

#include "broker_state.h"

/* Rules that were set just now count the version's jobs from here on. */
enum pen_status shadow_guard_set(struct broker *broker, const char *argument, struct pen_error *reterr);
/* Due from time to time: judges each guarded label that names its version. */
void shadow_guard_beat(struct broker *broker);

#endif
