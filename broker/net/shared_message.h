/*
 * shared_message.h - the frames of one group: a job's request, its kept reply, a cached value. Shared by reference count, never changed.
 *
 * Frames below SHARED_MESSAGE_COPY_BYTES are copied into a block of their own, because a small received message pins libzmq's 8 KiB receive
 * buffer; larger ones are moved, so that a payload is never copied.
 * Threads: owner for retain and release; the frames may be read and closed elsewhere (libzmq counts their references atomically).
 */
#ifndef SHARED_MESSAGE_H
#define SHARED_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "frame.h"
#include "patch.h"
#include "penstock/status.h"

#define SHARED_MESSAGE_COPY_BYTES 8192u

/* The three numbers share 8 bytes: every waiting job has a message. */
struct shared_message {
    uint64_t references : 20; /* at most one per session and a few more */
    uint64_t count : 7;
    uint64_t bytes : 37; /* of all frames */
    zmq_msg_t frames[];  /* read here; written by the functions below, which keep `bytes` */
};

struct shared_message *shared_message_new(size_t count); /* empty frames, one reference; NULL without memory */
struct shared_message *shared_message_retain(struct shared_message *shared);
void shared_message_release(struct shared_message *shared); /* NULL is fine */

/* Of all frames. */
static inline size_t shared_message_bytes(const struct shared_message *shared)
{
    return shared->bytes;
}

/* Makes frame `index` one of that many bytes and returns them, to be written before anybody reads the message. NULL
   without memory: the frame stays as it was. */
uint8_t *shared_message_make(struct shared_message *shared, size_t index, size_t bytes);
/* Moves `frame` into frame `index`; it is empty afterwards. */
void shared_message_put(struct shared_message *shared, size_t index, zmq_msg_t *frame);

/* Fills frame `index` from `frame`, which is empty afterwards. */
enum pen_status shared_message_take(struct shared_message *shared, size_t index, zmq_msg_t *frame);
/* A second message with the same frames, sharing their bytes. NULL without memory. */
struct shared_message *shared_message_share(const struct shared_message *shared);
/* The same with frame 0 empty, for another header. */
struct shared_message *shared_message_share_raws(const struct shared_message *shared);
/* Envelope and meta (borrowed) of its header; false: it is no message of ours. */
bool shared_message_open(const struct shared_message *shared, struct envelope *ret_env, const uint8_t **ret_meta);
/* Whether its header can be read and has that job's id. */
bool shared_message_is_of(const struct shared_message *shared, struct job_id id);
/* Gives frame `index` as a frame to send, sharing the bytes. It takes no memory and cannot fail. */
void shared_message_frame(const struct shared_message *shared, size_t index, zmq_msg_t *ret_frame);
/* Gives `bytes` bytes of frame `index` from `at` as a frame to send, sharing them. */
enum pen_status shared_message_piece(const struct shared_message *shared, size_t index, size_t at, size_t bytes,
                                     zmq_msg_t *ret_frame);

/*
 * Writes the header into frame 0 of a message that has all other frames: the envelope, `bytes` of meta as they came,
 * and the patch (NULL: none), as far as all of it fits into FRAME_META_BYTES_MAX. Sets env->meta_bytes. NO_MEMORY
 * leaves the message unchanged.
 */
enum pen_status shared_message_set_header(struct shared_message *shared, struct envelope *env, const void *meta,
                                          size_t bytes, const struct patch *patch);

#endif
