/*
 * parcel.h - the frames of one group: a job's request, its kept reply, a cached value. Shared by reference count, never changed.
 *
 * Frames below PARCEL_COPY_BYTES are copied into a block of their own, because a small received message pins libzmq's 8 KiB receive
 * buffer; larger ones are moved, so that a payload is never copied.
 * Threads: owner for retain and release; the frames may be read and closed elsewhere (libzmq counts their references atomically).
 */
#ifndef PARCEL_H
#define PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "frame.h"
#include "patch.h"
#include "penstock/status.h"

#define PARCEL_COPY_BYTES 8192u

struct parcel {
    uint32_t references;
    uint32_t count;
    zmq_msg_t frames[];
};

struct parcel *parcel_new(size_t count); /* empty frames, one reference; NULL without memory */
struct parcel *parcel_retain(struct parcel *parcel);
void parcel_release(struct parcel *parcel); /* NULL is fine */

size_t parcel_bytes(const struct parcel *parcel); /* of all frames */

/* Fills frame `index` from `frame`, which is empty afterwards. */
enum pen_status parcel_take(struct parcel *parcel, size_t index, zmq_msg_t *frame);
/* A second parcel with the same frames, sharing their bytes; frame 0 stays empty when `skip_header`. */
struct parcel *parcel_share(const struct parcel *parcel, bool skip_header);
/* Gives frame `index` as a frame to send, sharing the bytes. */
enum pen_status parcel_frame(const struct parcel *parcel, size_t index, zmq_msg_t *ret_frame);
/* Gives `bytes` bytes of frame `index` from `at` as a frame to send, sharing them. */
enum pen_status parcel_piece(const struct parcel *parcel, size_t index, size_t at, size_t bytes, zmq_msg_t *ret_frame);

/*
 * The header into frame 0 of a parcel that has all others: the envelope, `bytes` of meta as they came, and the patch (NULL: none) as far as the whole stays
 * within FRAME_META_BYTES_MAX. Sets env->meta_bytes. NO_MEMORY leaves the parcel as it is.
 */
enum pen_status parcel_set_header(struct parcel *parcel, struct envelope *env, const void *meta, size_t bytes,
                                  const struct patch *patch);

#endif
