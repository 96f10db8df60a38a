/*
 * bulk.h - a payload that is sent as credited chunks on a connection of its own: the counters at both ends of a
 * transfer. proto/PROTOCOL.md, "Large payloads".
 *
 * The payload is the raw frames of a group, one after the other. The receiver says up to which byte the sender may send
 * (CREDIT). The sender sends pieces of at most BULK_CHUNK_BYTES (CHUNK); no piece crosses the end of a frame.
 * Threads: one-at-a-time. Pure: nothing is sent or allocated here.
 */
#ifndef BULK_H
#define BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "tensor.pb-c.h"

#define BULK_CHUNK_BYTES (128u * 1024u) /* the kernel copies each in one go, which nothing can interrupt */
#define BULK_WINDOW_BYTES                                                                                              \
    (1024u * 1024u) /* credit beyond the bytes that have come: enough for 10 Gbit/s at 0.8 ms of round trip */

/* One end's view of one transfer. */
struct bulk {
    uint32_t number;         /* envelope.transfer: chosen by the sender, not 0 */
    uint32_t count;          /* frames */
    uint32_t frame;          /* the frame that the next byte belongs to */
    uint64_t at;             /* offset of that byte in the frame */
    uint64_t moved, granted; /* bytes sent or received; bytes that may be sent */
    uint64_t total;
    uint64_t sizes[FRAME_MAX_TENSORS];
};

struct bulk_piece {
    uint32_t frame; /* from 0 */
    uint64_t at;
    size_t bytes;
};

/* For a sender: add the frames in their order. */
void bulk_init(struct bulk *bulk, uint32_t number);
void bulk_add(struct bulk *bulk, uint64_t bytes);

/*
 * For a receiver, from the announcement: `frames` raw frames; the descriptors tell their sizes. CORRUPT when a frame is
 * not described exactly once; TOO_LARGE when one frame exceeds frame_bytes_max or all together bytes_max (0: no limit).
 */
enum pen_status bulk_expect(struct bulk *bulk, uint32_t number, Penstock__TensorDesc *const *descs, size_t descs_count,
                            size_t frames, uint64_t frame_bytes_max, uint64_t bytes_max, struct pen_error *reterr);

/* Sender: CREDIT came. False: it goes backwards or beyond the end. */
bool bulk_credited(struct bulk *bulk, uint64_t until);
/* Sender: the next piece, which counts as sent. False: no credit, or nothing left. */
bool bulk_next(struct bulk *bulk, struct bulk_piece *ret_piece);

/* Sender: the piece that bulk_next() gave last could not be sent; bulk_next() gives it again. */
void bulk_back(struct bulk *bulk, const struct bulk_piece *piece);

/* Receiver: where a CHUNK's bytes belong; counts them as received. False: they are not the next ones, cross the end
   of a frame or exceed the credit. */
bool bulk_accept(struct bulk *bulk, uint64_t offset, size_t bytes, struct bulk_piece *ret_piece);
/* Receiver: true when the sender must be told of more credit (bulk->granted). */
bool bulk_grant(struct bulk *bulk);

bool bulk_done(const struct bulk *bulk); /* every byte is sent or received */

/* The envelope of a CHUNK (one raw frame) or CREDIT. */
struct envelope bulk_envelope(enum frame_type type, struct job_id id, uint32_t number, uint64_t offset);

#endif
