/*
 * tensor_codec.h - protobuf metas <-> borrowed pen_tensor views, with caps, and a bounded arena for unpacking.
 *
 * Threads: one-at-a-time per struct.
 */
#ifndef TENSOR_CODEC_H
#define TENSOR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "penstock/status.h"
#include "penstock/tensor.h"
#include "tensor.pb-c.h"

/* A text for a message that will be packed: the structs of protobuf-c have no const, but packing only reads. */
static inline char *meta_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

/*
 * A bump allocator for protobuf-c: unpacking a message allocates from it, and one reset frees all. It grows by blocks
 * up to `limit` bytes in all; beyond that an allocation fails, and so does the unpacking, so a peer cannot make us
 * allocate more. Do not move it after its init. A limit of 1 MiB is enough for any normal meta of 64 KiB; 2 bytes on
 * the wire can become 120 in memory.
 */
struct meta_arena {
    ProtobufCAllocator allocator; /* give &arena->allocator to penstock__x__unpack */
    struct meta_block *blocks;
    size_t used, total, limit;
    bool starved;    /* memory ran out below the limit: a meta that was not unpacked may still be well formed */
    const char *nul; /* the field whose text has a NUL byte, so that the meta was refused; NULL = none */
};
void meta_arena_init(struct meta_arena *arena, size_t limit_bytes);
/* Gets the first block now (8 KiB), so that messages that fit there need no memory later. False: there is none. */
bool meta_arena_reserve(struct meta_arena *arena);
void meta_arena_reset(struct meta_arena *arena); /* keeps one block of at most 256 KiB: no malloc in the steady state */
void meta_arena_fini(struct meta_arena *arena);

/*
 * Unpacks a meta with the arena. NULL when it is malformed or too big, when the arena starved, or when a text in it has
 * a NUL byte: C code would stop reading there and take "sine\0evil" for "sine". The message lives until the arena is
 * reset: never call __free_unpacked.
 */
void *meta_unpack(struct meta_arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                  size_t size);
/* Why the last meta was not unpacked: INVALID with a sentence that names the field with the NUL byte, else CORRUPT
   with `malformed`. */
enum pen_status meta_refusal(const struct meta_arena *arena, const char *malformed, struct pen_error *reterr);
/* The name of the first field, also of nested messages, whose text has a NUL byte; NULL = none. The meta must be
   well formed. */
const char *meta_nul(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size);

/* One raw frame of a group as the receiver holds it. */
struct raw_frame {
    const void *data;
    size_t bytes;
};

/*
 * Turns `count` descriptors of a received group into views (names and inline data borrowed from the unpacked message, raw data from `frames`).
 * Checks dtype, rank, dims, byte counts, that each raw frame is used exactly once, and unique names (1..255 bytes, no control characters). `what` is "input" or "output" for the error text.
 * ret_tensors has room for `count`; on failure what it holds is worth nothing.
 */
enum pen_status tensors_decode(Penstock__TensorDesc *const *descs, size_t count, const struct raw_frame *frames,
                               size_t frames_count, const char *what, struct pen_tensor *ret_tensors,
                               struct pen_error *reterr);

/*
 * Fills descriptors for `count` tensors: inline when all payloads together fit FRAME_INLINE_BYTES, else one raw frame each in order
 * (zero-byte tensors stay inline). descs[i] and desc_pointers[i] are the caller's; names, dims and data are borrowed from the tensors.
 * *ret_frames = number of raw frames, and frame_order[k] = index of the tensor that is raw frame k + 1.
 */
void tensors_encode(const struct pen_tensor *tensors, size_t count, Penstock__TensorDesc *descs,
                    Penstock__TensorDesc **desc_pointers, uint32_t *frame_order, size_t *ret_frames);

#endif
