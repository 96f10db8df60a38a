#include "group_builder.h"

#include <string.h>

void group_builder_add(struct group_builder *builder, const char *name, const struct group_tensor *from)
{
    if (builder->count == FRAME_MAX_TENSORS)
        return;
    builder->tensors[builder->count] = from->view;
    builder->tensors[builder->count].name = name;
    builder->from[builder->count++] = from;
}

void group_builder_close(struct group_builder *builder)
{
    tensors_encode(builder->tensors, builder->count, builder->descs, builder->pointers, builder->order,
                   &builder->frames);
    for (size_t i = 0; i < builder->frames; i++) {
        const struct pen_tensor *tensor = &builder->tensors[builder->order[i]];
        builder->raws[i] = (struct raw_frame){.data = tensor->data, .bytes = tensor->bytes};
    }
}

/* Shares the frame of the group that the tensor came in; copies bytes that were inline in that group's meta. */
static enum pen_status raw_frame_make(const struct group_builder *builder, size_t index, zmq_msg_t *ret_frame)
{
    const struct group_tensor *from = builder->from[builder->order[index]];
    if (from->frame != 0) {
        shared_message_frame(from->shared, from->frame, ret_frame);
        return PEN_OK;
    }
    if (zmq_msg_init_size(ret_frame, from->view.bytes) != 0)
        return PEN_ERR_NO_MEMORY;
    if (from->view.bytes)
        memcpy(zmq_msg_data(ret_frame), from->view.data, from->view.bytes);
    return PEN_OK;
}

enum pen_status group_builder_message(struct group_builder *builder, const ProtobufCMessage *meta,
                                      struct shared_message **ret_shared, struct pen_error *reterr)
{
    zmq_msg_t frame;
    size_t bytes = protobuf_c_message_get_packed_size(meta);
    if (bytes > FRAME_META_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "its meta has %zu bytes, at most %u are allowed", bytes,
                             FRAME_META_BYTES_MAX);
    builder->env.frames = (uint8_t)builder->frames;
    builder->env.meta_bytes = (uint32_t)bytes;
    struct shared_message *shared = shared_message_new(1 + builder->frames);
    uint8_t *header = shared ? shared_message_make(shared, 0, FRAME_ENVELOPE_BYTES + bytes) : NULL;
    if (!header)
        goto fail;
    protobuf_c_message_pack(meta, envelope_encode(&builder->env, header));
    for (size_t i = 0; i < builder->frames; i++) {
        if (raw_frame_make(builder, i, &frame) != PEN_OK)
            goto fail;
        shared_message_put(shared, i + 1, &frame);
        zmq_msg_close(&frame);
    }
    *ret_shared = shared;
    return PEN_OK;
fail:
    shared_message_release(shared);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory for it");
}

void *group_open(const struct shared_message *shared, struct meta_arena *arena,
                 const ProtobufCMessageDescriptor *descriptor, struct envelope *ret_env)
{
    const uint8_t *meta;
    if (!shared_message_open(shared, ret_env, &meta))
        return NULL;
    return meta_unpack(arena, descriptor, meta, ret_env->meta_bytes);
}

enum pen_status group_tensors(const struct shared_message *shared, Penstock__TensorDesc *const *descs, size_t count,
                              struct pen_tensor *ret_tensors, struct pen_error *reterr)
{
    struct raw_frame raws[FRAME_MAX_TENSORS];
    size_t frames = shared->count - 1u;
    if (count > FRAME_MAX_TENSORS || frames > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "it has more than %u tensors", FRAME_MAX_TENSORS);
    for (size_t i = 0; i < frames; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&shared->frames[i + 1];
        raws[i] = (struct raw_frame){.data = zmq_msg_data(frame), .bytes = zmq_msg_size(frame)};
    }
    return tensors_decode(descs, count, raws, frames, "tensor", ret_tensors, reterr);
}
