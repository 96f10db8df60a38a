/*
 * detached_progress.h - tells a client about a detached job without sending its result.
 * Threads: owner.
 */
#ifndef DETACHED_PROGRESS_H
#define DETACHED_PROGRESS_H

#include "broker_state.h"

struct progress {
    const char *state;      /* "waiting", "running", "done" */
    enum pen_status status; /* when it is done */
    uint32_t attempts;      /* how often a broker began to run it */
    uint64_t age_us, left_us;
};

/* Sends a RESULT without outputs under the fetch's own id; ResultMeta.detached has this progress. */
void answer_progress(struct broker *broker, struct session *session, struct job_id id, const struct progress *progress);
/* The same for a job that has ended with this reply: state and status follow from it, the rest of the progress is sent as it is. */
void answer_ended(struct broker *broker, struct session *session, struct job_id id, const struct shared_message *reply,
                  struct progress progress);

#endif
