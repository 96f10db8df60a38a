/*
 * letter.h - a group that the broker writes itself out of tensors of other groups, whose frames it shares; and such groups opened.
 *
 * Threads: owner.
 */
#ifndef LETTER_H
#define LETTER_H

#include "frame.h"
#include "parcel.h"
#include "tensor_codec.h"

/* A tensor of a group that has come. Everything is borrowed: the view from an arena and the parcel. */
struct letter_tensor {
    struct pen_tensor view;
    struct parcel *parcel;
    uint32_t frame; /* raw frame of the parcel; 0 = the bytes are in the meta */
};

/* A group under construction. Set env, letter_add, letter_close; then pointers and count go into the meta, and letter_parcel makes the frames. */
struct letter {
    struct envelope env;
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    const struct letter_tensor *from[FRAME_MAX_TENSORS];
    size_t count;
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    struct raw_frame raws[FRAME_MAX_TENSORS];
    size_t frames;
};
/* At most FRAME_MAX_TENSORS; `from` and the name live as long as the letter. */
void letter_add(struct letter *letter, const char *name, const struct letter_tensor *from);
void letter_close(struct letter *letter);
/* TOO_LARGE: the meta; NO_MEMORY. Gives *ret_parcel. */
enum pen_status letter_parcel(struct letter *letter, const ProtobufCMessage *meta, struct parcel **ret_parcel,
                              struct pen_error *reterr);

/* The unpacked meta of a whole group, in the arena; NULL: it cannot be read. */
void *letter_open(const struct parcel *parcel, struct meta_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                  struct envelope *ret_env);
/* Its tensors, as tensors_decode. Room for FRAME_MAX_TENSORS. */
enum pen_status letter_tensors(const struct parcel *parcel, Penstock__TensorDesc *const *descs, size_t count,
                               struct pen_tensor *ret_tensors, struct pen_error *reterr);

#endif
