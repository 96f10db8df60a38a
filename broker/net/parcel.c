#include "parcel.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct parcel *parcel_new(size_t count)
{
    struct parcel *parcel = malloc(sizeof *parcel + count * sizeof(zmq_msg_t));
    if (!parcel)
        return NULL;
    parcel->references = 1;
    parcel->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        zmq_msg_init(&parcel->frames[i]);
    return parcel;
}

struct parcel *parcel_retain(struct parcel *parcel)
{
    parcel->references++;
    return parcel;
}

void parcel_release(struct parcel *parcel)
{
    if (!parcel || --parcel->references > 0)
        return;
    for (size_t i = 0; i < parcel->count; i++)
        zmq_msg_close(&parcel->frames[i]);
    free(parcel);
}

size_t parcel_bytes(const struct parcel *parcel)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < parcel->count; i++)
        bytes += zmq_msg_size(&parcel->frames[i]);
    return bytes;
}

enum pen_status parcel_take(struct parcel *parcel, size_t index, zmq_msg_t *frame)
{
    assert(index < parcel->count);
    zmq_msg_t *own = &parcel->frames[index];
    size_t bytes = zmq_msg_size(frame);
    if (bytes < PARCEL_COPY_BYTES) {
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
enum pen_status parcel_frame(const struct parcel *parcel, size_t index, zmq_msg_t *ret_frame)
{
    assert(index < parcel->count);
    zmq_msg_init(ret_frame);
    if (zmq_msg_copy(ret_frame, (zmq_msg_t *)(uintptr_t)&parcel->frames[index]) == 0)
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

enum pen_status parcel_piece(const struct parcel *parcel, size_t index, size_t at, size_t bytes, zmq_msg_t *ret_frame)
{
    zmq_msg_t *whole = malloc(sizeof *whole);
    if (!whole)
        return PEN_ERR_NO_MEMORY;
    if (parcel_frame(parcel, index, whole) != PEN_OK) {
        free(whole);
        return PEN_ERR_NO_MEMORY;
    }
    if (zmq_msg_init_data(ret_frame, (uint8_t *)zmq_msg_data(whole) + at, bytes, uncut, whole) == 0)
        return PEN_OK;
    uncut(NULL, whole);
    return PEN_ERR_NO_MEMORY;
}

struct parcel *parcel_share(const struct parcel *parcel, bool skip_header)
{
    struct parcel *twin = parcel_new(parcel->count);
    if (!twin)
        return NULL;
    for (size_t i = skip_header ? 1 : 0; i < parcel->count; i++) {
        if (zmq_msg_copy(&twin->frames[i], (zmq_msg_t *)(uintptr_t)&parcel->frames[i]) != 0) {
            parcel_release(twin);
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

enum pen_status parcel_set_header(struct parcel *parcel, struct envelope *env, const void *meta, size_t bytes,
                                  const struct patch *patch)
{
    zmq_msg_t frame;
    if (header_frame(env, meta, bytes, patch, &frame) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    zmq_msg_move(&parcel->frames[0], &frame);
    zmq_msg_close(&frame);
    return PEN_OK;
}
