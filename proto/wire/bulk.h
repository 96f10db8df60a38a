/*
 * bulk.h - a payload that travels as credited chunks on a connection of its own: what both ends of a transfer count. proto/PROTOCOL.md, "Large payloads".
 *
 * The payload is the raw frames of a group behind each other. The receiver says up to which byte the sender may go (CREDIT); the sender cuts pieces
 * of at most BULK_CHUNK_BYTES, none of which reaches over the end of a frame (CHUNK).
 * Threads: one-at-a-time. Pure: nothing is sent or allocated here.
 */
#ifndef BULK_H
#define BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "tensor.pb-c.h"

#define BULK_CHUNK_BYTES (128u * 1024u) /* each is one copy in the kernel, which nobody can interrupt */
#define BULK_WINDOW_BYTES                                                                                              \
    (1024u * 1024u) /* a receiver's credit beyond what has come: 10 Gbit/s at 0.8 ms of round trip */

/* One end's view of one transfer. */
struct bulk {
    uint32_t number;         /* envelope.transfer: the sender's, not 0 */
    uint32_t count;          /* frames */
    uint32_t frame;          /* that the next byte belongs to */
    uint64_t at;             /* of it in that frame */
    uint64_t moved, granted; /* bytes sent or received; sent at most */
    uint64_t total;
    uint64_t sizes[FRAME_MAX_TENSORS];
};

struct bulk_piece {
    uint32_t frame; /* from 0 */
    uint64_t at;
    size_t bytes;
};

/* A sender's: frames are added in their order. */
void bulk_init(struct bulk *bulk, uint32_t number);
void bulk_add(struct bulk *bulk, uint64_t bytes);

/*
 * A receiver's, from the announcement: `frames` raw frames whose sizes the descriptors tell. CORRUPT when a frame is not described exactly
 * once; TOO_LARGE beyond frame_bytes_max for one or bytes_max for all (0: no limit).
 */
enum pen_status bulk_expect(struct bulk *bulk, uint32_t number, Penstock__TensorDesc *const *descs, size_t descs_count,
                            size_t frames, uint64_t frame_bytes_max, uint64_t bytes_max, struct pen_error *reterr);

/* Sender: CREDIT came. False: it goes backwards or beyond the end. */
bool bulk_credited(struct bulk *bulk, uint64_t until);
/* Sender: the next piece, which counts as sent. False: no credit, or nothing left. */
bool bulk_next(struct bulk *bulk, struct bulk_piece *ret_piece);

/* Sender: that piece, the last that bulk_next() gave, could not be sent: it is the next one again. */
void bulk_back(struct bulk *bulk, const struct bulk_piece *piece);

/* Receiver: where a CHUNK's bytes belong; they count as received. False: they are not the next ones, reach over a frame or exceed the credit. */
bool bulk_accept(struct bulk *bulk, uint64_t offset, size_t bytes, struct bulk_piece *ret_piece);
/* Receiver: true when more credit (bulk->granted) is to be told. */
bool bulk_grant(struct bulk *bulk);

bool bulk_done(const struct bulk *bulk); /* every byte is sent or received */

/* The envelope of a CHUNK (one raw frame) or CREDIT. */
struct envelope bulk_envelope(enum frame_type type, struct job_id id, uint32_t number, uint64_t offset);
/* Writes the number of a transfer (0 = none) into an encoded envelope. */
void bulk_number_write(void *envelope_bytes, uint32_t number);

#endif
