/*
 * submit.h - one SUBMIT on its way to becoming a job: admitted, answered from the cache, joined to a twin, or queued.
 * Threads: owner.
 */
#ifndef SUBMIT_H
#define SUBMIT_H

#include "broker.h"

/* env and meta have been decoded from frame 0 of the message; its frames may be moved out. */
void submit_job(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                struct message *message);

#endif
