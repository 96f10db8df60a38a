#include "shared_message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct shared_message *shared_message_new(size_t count)
{
    struct shared_message *shared = malloc(sizeof *shared + count * sizeof(zmq_msg_t));
    if (!shared)
        return NULL;
    shared->references = 1;
    shared->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        zmq_msg_init(&shared->frames[i]);
    return shared;
}

struct shared_message *shared_message_retain(struct shared_message *shared)
{
    shared->references++;
    return shared;
}

void shared_message_release(struct shared_message *shared)
{
    if (!shared || --shared->references > 0)
        return;
    for (size_t i = 0; i < shared->count; i++)
        zmq_msg_close(&shared->frames[i]);
    free(shared);
}

size_t shared_message_bytes(const struct shared_message *shared)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < shared->count; i++)
        bytes += zmq_msg_size(&shared->frames[i]);
    return bytes;
}

enum pen_status shared_message_take(struct shared_message *shared, size_t index, zmq_msg_t *frame)
{
    assert(index < shared->count);
    zmq_msg_t *own = &shared->frames[index];
    size_t bytes = zmq_msg_size(frame);
    if (bytes < SHARED_MESSAGE_COPY_BYTES) {
        zmq_msg_t copy;
        if (zmq_msg_init_size(&copy, bytes) != 0)
            return PEN_ERR_NO_MEMORY;
        memcpy(zmq_msg_data(&copy), zmq_msg_data(frame), bytes);
        zmq_msg_move(own, &copy);
        zmq_msg_close(&copy);
    } else {
        zmq_msg_move(own, frame);
    }
    return PEN_OK;
}

/* libzmq counts references inside the source, hence the cast: the bytes themselves stay untouched. */
enum pen_status shared_message_frame(const struct shared_message *shared, size_t index, zmq_msg_t *ret_frame)
{
    assert(index < shared->count);
    zmq_msg_init(ret_frame);
    if (zmq_msg_copy(ret_frame, (zmq_msg_t *)(uintptr_t)&shared->frames[index]) == 0)
        return PEN_OK;
    zmq_msg_close(ret_frame);
    return PEN_ERR_NO_MEMORY;
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
    if (shared_message_frame(shared, index, whole) != PEN_OK) {
        free(whole);
        return PEN_ERR_NO_MEMORY;
    }
    if (zmq_msg_init_data(ret_frame, (uint8_t *)zmq_msg_data(whole) + at, bytes, uncut, whole) == 0)
        return PEN_OK;
    uncut(NULL, whole);
    return PEN_ERR_NO_MEMORY;
}

struct shared_message *shared_message_share(const struct shared_message *shared, bool skip_header)
{
    struct shared_message *twin = shared_message_new(shared->count);
    if (!twin)
        return NULL;
    for (size_t i = skip_header ? 1 : 0; i < shared->count; i++) {
        if (zmq_msg_copy(&twin->frames[i], (zmq_msg_t *)(uintptr_t)&shared->frames[i]) != 0) {
            shared_message_release(twin);
            return NULL;
        }
    }
    return twin;
}

static enum pen_status header_frame(struct envelope *env, const void *meta, size_t bytes, const struct patch *patch,
                                    zmq_msg_t *ret_frame)
{
    size_t extra = patch && bytes + patch->used <= FRAME_META_BYTES_MAX ? patch->used : 0;
    size_t more = patch && bytes + extra + patch->more_bytes <= FRAME_META_BYTES_MAX ? patch->more_bytes : 0;
    if (zmq_msg_init_size(ret_frame, FRAME_ENVELOPE_BYTES + bytes + extra + more) != 0)
        return PEN_ERR_NO_MEMORY;
    uint8_t *to = zmq_msg_data(ret_frame);
    env->meta_bytes = (uint32_t)(bytes + extra + more);
    envelope_encode(env, to);
    if (bytes)
        memcpy(to + FRAME_ENVELOPE_BYTES, meta, bytes);
    if (extra)
        memcpy(to + FRAME_ENVELOPE_BYTES + bytes, patch->bytes, extra);
    if (more)
        memcpy(to + FRAME_ENVELOPE_BYTES + bytes + extra, patch->more, more);
    return PEN_OK;
}

enum pen_status shared_message_set_header(struct shared_message *shared, struct envelope *env, const void *meta,
                                          size_t bytes, const struct patch *patch)
{
    zmq_msg_t frame;
    if (header_frame(env, meta, bytes, patch, &frame) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    zmq_msg_move(&shared->frames[0], &frame);
    zmq_msg_close(&frame);
    return PEN_OK;
}
