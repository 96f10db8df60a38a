#include "detached_progress.h"

#include <string.h>

#include "answer.h"
#include "job.pb-c.h"
#include "answer_send.h"

void answer_progress(struct broker *broker, struct session *session, struct job_id id, const struct progress *progress)
{
    uint8_t meta[256];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__DetachedState state = PENSTOCK__DETACHED_STATE__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    state.state = (char *)(uintptr_t)progress->state;
    state.status = progress->status;
    state.attempts = progress->attempts;
    state.age_us = progress->age_us;
    state.left_us = progress->left_us;
    result.detached = &state;
    env.job = id;
    env.meta_bytes = (uint32_t)penstock__result_meta__pack(&result, meta);
    struct shared_message *shared = shared_message_new(1);
    uint8_t *header = shared ? shared_message_make(shared, 0, FRAME_ENVELOPE_BYTES + env.meta_bytes) : NULL;
    if (header) {
        memcpy(envelope_encode(&env, header), meta, env.meta_bytes);
        answer_stored(broker, session, id, shared);
    }
    shared_message_release(shared);
}

void answer_ended(struct broker *broker, struct session *session, struct job_id id, const struct shared_message *reply,
                  struct progress progress)
{
    struct envelope env;
    const uint8_t *meta;
    progress.state = "done";
    progress.status = shared_message_open(reply, &env, &meta) ? (enum pen_status)env.status : PEN_ERR_INTERNAL;
    answer_progress(broker, session, id, &progress);
}
