#include "letter.h"

#include <string.h>

void letter_add(struct letter *letter, const char *name, const struct letter_tensor *from)
{
    if (letter->count == FRAME_MAX_TENSORS)
        return;
    letter->tensors[letter->count] = from->view;
    letter->tensors[letter->count].name = name;
    letter->from[letter->count++] = from;
}

void letter_close(struct letter *letter)
{
    tensors_encode(letter->tensors, letter->count, letter->descs, letter->pointers, letter->order, &letter->frames);
    for (size_t i = 0; i < letter->frames; i++) {
        const struct pen_tensor *tensor = &letter->tensors[letter->order[i]];
        letter->raws[i] = (struct raw_frame){.data = tensor->data, .bytes = tensor->bytes};
    }
}

/* Shared with the group that it came in; what travelled in that one's meta is copied. */
static enum pen_status raw_frame_make(const struct letter *letter, size_t index, zmq_msg_t *ret_frame)
{
    const struct letter_tensor *from = letter->from[letter->order[index]];
    if (from->frame != 0)
        return parcel_frame(from->parcel, from->frame, ret_frame);
    if (zmq_msg_init_size(ret_frame, from->view.bytes) != 0)
        return PEN_ERR_NO_MEMORY;
    if (from->view.bytes)
        memcpy(zmq_msg_data(ret_frame), from->view.data, from->view.bytes);
    return PEN_OK;
}

enum pen_status letter_parcel(struct letter *letter, const ProtobufCMessage *meta, struct parcel **ret_parcel,
                              struct pen_error *reterr)
{
    zmq_msg_t frame;
    size_t bytes = protobuf_c_message_get_packed_size(meta);
    if (bytes > FRAME_META_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "its meta has %zu bytes, at most %u are allowed", bytes,
                             FRAME_META_BYTES_MAX);
    letter->env.frames = (uint8_t)letter->frames;
    letter->env.meta_bytes = (uint32_t)bytes;
    struct parcel *parcel = parcel_new(1 + letter->frames);
    if (!parcel || zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + bytes) != 0)
        goto fail;
    uint8_t *to = zmq_msg_data(&frame);
    envelope_encode(&letter->env, to);
    protobuf_c_message_pack(meta, to + FRAME_ENVELOPE_BYTES);
    zmq_msg_move(&parcel->frames[0], &frame);
    zmq_msg_close(&frame);
    for (size_t i = 0; i < letter->frames; i++) {
        if (raw_frame_make(letter, i, &frame) != PEN_OK)
            goto fail;
        zmq_msg_move(&parcel->frames[i + 1], &frame);
        zmq_msg_close(&frame);
    }
    *ret_parcel = parcel;
    return PEN_OK;
fail:
    parcel_release(parcel);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory for it");
}

void *letter_open(const struct parcel *parcel, struct meta_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                  struct envelope *ret_env)
{
    const uint8_t *meta;
    zmq_msg_t *header = (zmq_msg_t *)(uintptr_t)&parcel->frames[0];
    if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, &meta, NULL) != PEN_OK)
        return NULL;
    return meta_unpack(arena, descriptor, meta, ret_env->meta_bytes);
}

enum pen_status letter_tensors(const struct parcel *parcel, Penstock__TensorDesc *const *descs, size_t count,
                               struct pen_tensor *ret_tensors, struct pen_error *reterr)
{
    struct raw_frame raws[FRAME_MAX_TENSORS];
    size_t frames = parcel->count - 1u;
    if (count > FRAME_MAX_TENSORS || frames > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "it has more than %u tensors", FRAME_MAX_TENSORS);
    for (size_t i = 0; i < frames; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&parcel->frames[i + 1];
        raws[i] = (struct raw_frame){.data = zmq_msg_data(frame), .bytes = zmq_msg_size(frame)};
    }
    return tensors_decode(descs, count, raws, frames, "tensor", ret_tensors, reterr);
}
