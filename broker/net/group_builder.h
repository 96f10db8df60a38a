/*
 * group_builder.h - builds a group from tensors of other groups, sharing their frames; and opens a whole group for
 * reading.
 *
 * Threads: owner.
 */
#ifndef GROUP_BUILDER_H
#define GROUP_BUILDER_H

#include "frame.h"
#include "shared_message.h"
#include "tensor_codec.h"

/* A tensor of a group that has come. Everything is borrowed: the view from an arena and the message. */
struct group_tensor {
    struct pen_tensor view;
    struct shared_message *shared;
    uint32_t frame; /* raw frame of the message; 0 = the bytes are in the meta */
};

/* A group under construction. Set env, call group_builder_add for each tensor, then group_builder_close. Put
   pointers and count into the meta; group_builder_message then makes the frames. */
struct group_builder {
    struct envelope env;
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    const struct group_tensor *from[FRAME_MAX_TENSORS];
    size_t count;
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    struct raw_frame raws[FRAME_MAX_TENSORS];
    size_t frames;
};
/* At most FRAME_MAX_TENSORS; `from` and the name live as long as the builder. */
void group_builder_add(struct group_builder *builder, const char *name, const struct group_tensor *from);
void group_builder_close(struct group_builder *builder);
/* TOO_LARGE: the meta; NO_MEMORY. Gives *ret_shared. */
enum pen_status group_builder_message(struct group_builder *builder, const ProtobufCMessage *meta,
                                      struct shared_message **ret_shared, struct pen_error *reterr);

/* The unpacked meta of a whole group, in the arena; NULL: it cannot be read. */
void *group_open(const struct shared_message *shared, struct meta_arena *arena,
                 const ProtobufCMessageDescriptor *descriptor, struct envelope *ret_env);
/* Its tensors, as tensors_decode. Room for FRAME_MAX_TENSORS. */
enum pen_status group_tensors(const struct shared_message *shared, Penstock__TensorDesc *const *descs, size_t count,
                              struct pen_tensor *ret_tensors, struct pen_error *reterr);

#endif
