/*
 * held.h - a job whose model no worker has in memory is held, not refused, and its client is told for how long.
 *
 * The telling (NOTICE) goes only to clients whose hello asks for it. It is no promise: the job waits as long as it takes,
 * within its deadline, --worker-wait and --wake-wait.
 * Threads: owner.
 */
#ifndef HELD_H
#define HELD_H

#include "broker_state.h"

/* A job was admitted: counts it and tells its client when its model must be loaded first, or has no worker. */
void held_tell(struct broker *broker, struct session *session, const struct job *job);
/* A job was parked: nobody knows its model yet. */
void held_tell_parked(struct broker *broker, struct session *session, struct job_id id);

#endif
