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
    zmq_msg_t frame;
    state.state = (char *)(uintptr_t)progress->state;
    state.status = progress->status;
    state.attempts = progress->attempts;
    state.age_us = progress->age_us;
    state.left_us = progress->left_us;
    result.detached = &state;
    env.job = id;
    env.meta_bytes = (uint32_t)penstock__result_meta__pack(&result, meta);
    struct shared_message *shared = shared_message_new(1);
    if (shared && zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + env.meta_bytes) == 0) {
        uint8_t *to = zmq_msg_data(&frame);
        envelope_encode(&env, to);
        memcpy(to + FRAME_ENVELOPE_BYTES, meta, env.meta_bytes);
        zmq_msg_move(&shared->frames[0], &frame);
        zmq_msg_close(&frame);
        answer_stored(broker, session, id, shared);
    }
    shared_message_release(shared);
}

void answer_ended(struct broker *broker, struct session *session, struct job_id id, const struct shared_message *reply)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = (zmq_msg_t *)(uintptr_t)&reply->frames[0];
    struct progress progress = {.state = "done", .status = PEN_ERR_INTERNAL};
    if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK)
        progress.status = (enum pen_status)env.status;
    answer_progress(broker, session, id, &progress);
}
