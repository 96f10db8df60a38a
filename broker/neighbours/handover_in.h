/*
 * handover_in.h - takes a job over from a neighbour that drains (JobMeta.handed), and answers HANDED.
 *
 * The job gets a session with its client's uuid, tenant, key and grace window, which waits for the client to come. When
 * the client comes, it sends the job again under its id and joins it, or is told the kept reply. When it does not come,
 * the grace window ends the job.
 * Threads: owner.
 */
#ifndef HANDOVER_IN_H
#define HANDOVER_IN_H

#include "broker_state.h"

void handover_take(struct broker *broker, struct message *message, const struct envelope *env, const uint8_t *meta);

/* CANCEL from a neighbour: a job that was taken over ends, unless its client is here by now and says so itself. */
void handover_cancel(struct broker *broker, const struct message *message, const struct envelope *env);

#endif
