#include "sealed_in.h"

#include "parcel_frames.h"
#include "sealed_way.h"
#include "transfer_internal.h"

/* Whether the group that begins there has its frames in sealed memory, and how many frames of the message it has. */
static bool group_sealed(const struct message *message, size_t at, size_t *ret_frames)
{
    struct envelope env;
    const uint8_t *meta;
    *ret_frames = 1;
    if (envelope_decode(zmq_msg_data(&message->frames[at]), zmq_msg_size(&message->frames[at]), &env, &meta, NULL) !=
        PEN_OK)
        return false; /* its reader refuses it */
    if (env.transfer == 0)
        *ret_frames += env.frames;
    return env.transfer != 0 && (env.flags & FRAME_FLAG_SEALED);
}

static bool any_sealed(const struct message *message)
{
    size_t frames;
    for (size_t at = 0; at < message->count; at += frames)
        if (group_sealed(message, at, &frames))
            return true;
    return false;
}

static enum pen_status take(struct broker *broker, const struct transfer_end *end, const struct envelope *env,
                            struct parcel *ret_parcel, struct pen_error *reterr)
{
    const struct parcel_limits limits = {.frame_bytes_max = (uint64_t)broker->options->max_frame_bytes,
                                         .bytes_max = (uint64_t)broker->options->max_job_bytes,
                                         .whole = true};
    if (!end->sealed)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "sealed memory from a peer that was told of no socket for it");
    enum pen_status status = parcel_take(&end->sealed->link, env->transfer, &limits, ret_parcel, reterr);
    if (status == PEN_OK && ret_parcel->frames_count != env->frames) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "sealed memory with %u frames where the message says %u",
                               ret_parcel->frames_count, env->frames);
        parcel_drop(ret_parcel);
    }
    return status;
}

/* Adds the group's frames behind its header, the last frame of the message. */
static enum pen_status add_frames(struct broker *broker, const struct transfer_end *end, struct message *message,
                                  struct pen_error *reterr)
{
    struct envelope env;
    const uint8_t *meta;
    struct parcel parcel;
    zmq_msg_t frames[FRAME_MAX_TENSORS], *header = &message->frames[message->count - 1];
    envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL); /* good before */
    enum pen_status status = take(broker, end, &env, &parcel, reterr);
    if (status != PEN_OK)
        return status;
    frame_set_sealed(zmq_msg_data(header), 0);
    int made = parcel_frames_make(&parcel, frames);
    for (uint32_t i = 0; made == 0 && i < parcel.frames_count; i++)
        message_add(message, &frames[i]); /* one too many is dropped, and the message marked as too long */
    parcel_drop(&parcel);
    if (made != 0)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the frames of a job in sealed memory");
    broker->stats.sealed_in++;
    return PEN_OK;
}

/* Moves the frames over one by one, so that those that are new get their places. */
static enum pen_status fill(struct broker *broker, const struct transfer_end *end, struct message *message,
                            struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    struct message came = *message;
    size_t frames;
    message->frames = NULL;
    message->count = message->capacity = message->bytes = 0;
    for (size_t at = 0; status == PEN_OK && at < came.count; at += frames) {
        bool sealed = group_sealed(&came, at, &frames);
        for (size_t i = at; i < at + frames && i < came.count; i++)
            message_add(message, &came.frames[i]);
        if (sealed && !message->overflow)
            status = add_frames(broker, end, message, reterr);
    }
    message_fini(&came);
    return status;
}

bool sealed_in_whole(struct broker *broker, struct transfer_end *end, struct message *message)
{
    struct pen_error error = {.status = PEN_OK};
    bool alone = message->count == 1 && (zmq_msg_size(&message->frames[0]) < FRAME_ENVELOPE_BYTES ||
                                         !frame_is_sealed(zmq_msg_data(&message->frames[0])));
    if (alone || message->overflow || !any_sealed(message))
        return true;
    if (!message_own(message))
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for a message with sealed memory");
    else if (fill(broker, end, message, &error) == PEN_OK)
        return true;
    transfer_upset(broker, end, error.text);
    return false;
}
