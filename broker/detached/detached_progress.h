/*
 * detached_progress.h - what a client is told of a detached job without its result.
 * Threads: owner.
 */
#ifndef DETACHED_PROGRESS_H
#define DETACHED_PROGRESS_H

#include "broker_state.h"

struct progress {
    const char *state;      /* "waiting", "running", "done" */
    enum pen_status status; /* of one that is done */
    uint32_t attempts;      /* brokers that have begun it */
    uint64_t age_us, left_us;
};

/* A RESULT without outputs under the fetch's own id, with this as ResultMeta.detached. */
void answer_progress(struct broker *broker, struct session *session, struct job_id id, const struct progress *progress);
/* The same for one that has ended with this reply. */
void answer_ended(struct broker *broker, struct session *session, struct job_id id, const struct shared_message *reply);

#endif
