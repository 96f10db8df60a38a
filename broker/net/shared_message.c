#include "shared_message.h"

#include "assertion.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((UINT64_C(1) << 37) - 1)

static void set_bytes(struct shared_message *shared, uint64_t bytes)
{
    PEN_ASSERT(bytes <= BYTES_MAX, "no message has 128 GiB: far smaller ones were refused");
    shared->bytes = bytes & BYTES_MAX;
}

struct shared_message *shared_message_new(size_t count)
{
    PEN_ASSERT(count <= 1 + FRAME_MAX_TENSORS, "a message has a header and the frames of its tensors");
    struct shared_message *shared = malloc(sizeof *shared + count * sizeof(zmq_msg_t));
    if (!shared)
        return NULL;
    shared->references = 1;
    shared->count = count & 127u;
    shared->bytes = 0;
    for (size_t i = 0; i < count; i++)
        zmq_msg_init(&shared->frames[i]);
    return shared;
}

struct shared_message *shared_message_retain(struct shared_message *shared)
{
    PEN_ASSERT(shared->references > 0, "a message that is shared is still there");
    PEN_ASSERT(shared->references < (1u << 20) - 1, "fewer hold a message than there may be sessions");
    shared->references++;
    return shared;
}

void shared_message_release(struct shared_message *shared)
{
    PEN_ASSERT(!shared || shared->references > 0, "a message is let go as often as it was held");
    if (!shared || --shared->references > 0)
        return;
    for (size_t i = 0; i < shared->count; i++)
        zmq_msg_close(&shared->frames[i]);
    free(shared);
}

void shared_message_put(struct shared_message *shared, size_t index, zmq_msg_t *frame)
{
    PEN_ASSERT(index < shared->count, "only frames that the message has are written");
    zmq_msg_t *own = &shared->frames[index];
    set_bytes(shared, shared->bytes - zmq_msg_size(own) + zmq_msg_size(frame));
    zmq_msg_move(own, frame);
}

uint8_t *shared_message_make(struct shared_message *shared, size_t index, size_t bytes)
{
    PEN_ASSERT(index < shared->count, "only frames that the message has are written");
    zmq_msg_t *own = &shared->frames[index], frame;
    if (zmq_msg_size(own) == 0) { /* the usual case, made in its place */
        if (zmq_msg_init_size(own, bytes) != 0) {
            zmq_msg_init(own);
            return NULL;
        }
        set_bytes(shared, shared->bytes + bytes);
        return zmq_msg_data(own);
    }
    if (zmq_msg_init_size(&frame, bytes) != 0)
        return NULL;
    shared_message_put(shared, index, &frame);
    return zmq_msg_data(own);
}

enum pen_status shared_message_take(struct shared_message *shared, size_t index, zmq_msg_t *frame)
{
    size_t bytes = zmq_msg_size(frame);
    if (bytes >= SHARED_MESSAGE_COPY_BYTES) {
        shared_message_put(shared, index, frame);
        return PEN_OK;
    }
    uint8_t *to = shared_message_make(shared, index, bytes);
    if (!to)
        return PEN_ERR_NO_MEMORY;
    memcpy(to, zmq_msg_data(frame), bytes);
    return PEN_OK;
}

bool shared_message_open(const struct shared_message *shared, struct envelope *ret_env, const uint8_t **ret_meta)
{
    zmq_msg_t *header = (zmq_msg_t *)(uintptr_t)&shared->frames[0]; /* libzmq has no const; nothing is written */
    return envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, ret_meta, NULL) == PEN_OK;
}

bool shared_message_is_of(const struct shared_message *shared, struct job_id id)
{
    struct envelope env;
    const uint8_t *meta;
    return shared_message_open(shared, &env, &meta) && job_id_equal(env.job, id);
}

/* libzmq counts references inside the source, hence the cast: the bytes themselves stay untouched. */
void shared_message_frame(const struct shared_message *shared, size_t index, zmq_msg_t *ret_frame)
{
    PEN_ASSERT(index < shared->count, "only frames that the message has are sent");
    zmq_msg_init(ret_frame);
    int status = zmq_msg_copy(ret_frame, (zmq_msg_t *)(uintptr_t)&shared->frames[index]);
    PEN_ASSERT(status == 0, "a frame that is kept can be shared: libzmq only counts");
}

/* ZeroMQ's free function, on its I/O thread: the reference to the whole frame that a piece was cut from. */
static void uncut(void *data, void *hint)
{
    (void)data;
    zmq_msg_close(hint);
    free(hint);
}

enum pen_status shared_message_piece(const struct shared_message *shared, size_t index, size_t at, size_t bytes,
                                     zmq_msg_t *ret_frame)
{
    zmq_msg_t *whole = malloc(sizeof *whole);
    if (!whole)
        return PEN_ERR_NO_MEMORY;
    shared_message_frame(shared, index, whole);
    if (zmq_msg_init_data(ret_frame, (uint8_t *)zmq_msg_data(whole) + at, bytes, uncut, whole) == 0)
        return PEN_OK;
    uncut(NULL, whole);
    return PEN_ERR_NO_MEMORY;
}

static struct shared_message *share_from(const struct shared_message *shared, size_t first)
{
    struct shared_message *twin = shared_message_new(shared->count);
    if (!twin)
        return NULL;
    for (size_t i = first; i < shared->count; i++) {
        if (zmq_msg_copy(&twin->frames[i], (zmq_msg_t *)(uintptr_t)&shared->frames[i]) != 0) {
            shared_message_release(twin);
            return NULL;
        }
        set_bytes(twin, twin->bytes + zmq_msg_size(&twin->frames[i]));
    }
    return twin;
}

struct shared_message *shared_message_share(const struct shared_message *shared)
{
    return share_from(shared, 0);
}

struct shared_message *shared_message_share_raws(const struct shared_message *shared)
{
    return share_from(shared, 1);
}

enum pen_status shared_message_set_header(struct shared_message *shared, struct envelope *env, const void *meta,
                                          size_t bytes, const struct patch *patch)
{
    size_t extra = patch && bytes + patch->used <= FRAME_META_BYTES_MAX ? patch->used : 0;
    size_t more = patch && bytes + extra + patch->more_bytes <= FRAME_META_BYTES_MAX ? patch->more_bytes : 0;
    uint8_t *to = shared_message_make(shared, 0, FRAME_ENVELOPE_BYTES + bytes + extra + more);
    if (!to)
        return PEN_ERR_NO_MEMORY;
    env->meta_bytes = (uint32_t)(bytes + extra + more);
    to = envelope_encode(env, to);
    if (bytes)
        memcpy(to, meta, bytes);
    if (extra)
        memcpy(to + bytes, patch->bytes, extra);
    if (more)
        memcpy(to + bytes + extra, patch->more, more);
    return PEN_OK;
}
