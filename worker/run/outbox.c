/* outbox.c - builds RESULT messages and hands them to the network thread. */
#include "outbox.h"

#include "assertion.h"
#include "large_frame.h"
#include "parcel_frames.h"
#include "tensor_codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct outbox {
    _Atomic(struct reply *) head; /* newest first */
    atomic_bool sleeping;
    int fd;
};

/* ---- one reply --------------------------------------------------------------------------------------------------------------------- */

struct reply *reply_new(size_t jobs_room, size_t frames_room)
{
    struct reply *reply =
        calloc(1, sizeof *reply + frames_room * sizeof(zmq_msg_t) + jobs_room * sizeof(struct job_id));
    if (!reply)
        return NULL;
    reply->frames = (zmq_msg_t *)(reply + 1);
    reply->frames_room = frames_room;
    reply->jobs = (struct job_id *)(reply->frames + frames_room);
    reply->jobs_room = jobs_room;
    return reply;
}

static void frames_cut(struct reply *reply, size_t count)
{
    while (reply->frames_count > count)
        zmq_msg_close(&reply->frames[--reply->frames_count]);
}

void reply_free(struct reply *reply)
{
    if (!reply)
        return;
    frames_cut(reply, 0);
    free(reply);
}

static enum pen_status frame_open(struct reply *reply, size_t bytes, void **ret_data, struct pen_error *reterr)
{
    PEN_ASSERT(reply->frames_count < reply->frames_room, "a reply has room for each of its frames");
    zmq_msg_t *frame = &reply->frames[reply->frames_count];
    if (large_frame_new(frame, bytes) != 0)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a result of %zu bytes", bytes);
    reply->frames_count++;
    *ret_data = zmq_msg_data(frame);
    return PEN_OK;
}

static enum pen_status header_add(struct reply *reply, struct envelope *env, const Penstock__ResultMeta *meta,
                                  struct pen_error *reterr)
{
    void *data = NULL;
    size_t bytes = penstock__result_meta__get_packed_size(meta);
    if (bytes > FRAME_META_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the result's meta has %zu bytes, at most %u can travel", bytes,
                             FRAME_META_BYTES_MAX);
    enum pen_status status = frame_open(reply, FRAME_ENVELOPE_BYTES + bytes, &data, reterr);
    if (status != PEN_OK)
        return status;
    env->meta_bytes = (uint32_t)bytes;
    penstock__result_meta__pack(meta, envelope_encode(env, data));
    return PEN_OK;
}

static size_t raw_bytes(const struct reply_group *group, const uint32_t *order, size_t raw)
{
    size_t bytes = 0;
    for (size_t i = 0; i < raw; i++)
        bytes += group->outputs[order[i]].bytes;
    return bytes;
}

/* The outputs are copied once, as always: into one block of sealed memory. False: they must go as bytes. */
static bool raws_seal(struct reply *reply, const struct reply_group *group, const uint32_t *order, size_t raw)
{
    struct sealed_piece pieces[FRAME_MAX_TENSORS];
    size_t offsets[FRAME_MAX_TENSORS], before = reply->frames_count;
    bool whole = true;
    for (size_t i = 0; i < raw; i++)
        pieces[i] = (struct sealed_piece){group->outputs[order[i]].data, group->outputs[order[i]].bytes};
    struct sealed *block = sealed_copy(pieces, raw, offsets);
    for (size_t i = 0; block && whole && i < raw; i++) {
        whole = sealed_frame_new(&reply->frames[reply->frames_count], block, offsets[i], pieces[i].bytes) == 0;
        reply->frames_count += whole;
    }
    sealed_release(block);
    if (block && !whole)
        frames_cut(reply, before);
    return block && whole;
}

static enum pen_status raws_copy(struct reply *reply, const struct reply_group *group, const uint32_t *order,
                                 size_t raw, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < raw; i++) {
        void *data = NULL;
        const struct pen_tensor *output = &group->outputs[order[i]];
        status = frame_open(reply, output->bytes, &data, reterr);
        if (status == PEN_OK)
            memcpy(data, output->data, output->bytes);
    }
    return status;
}

static struct envelope result_envelope(const struct envelope *asked, const struct reply_group *group)
{
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = asked->job;
    env.model_hash = asked->model_hash;
    env.sequence_id = asked->sequence_id;
    env.tenant_hash = asked->tenant_hash;
    env.priority = asked->priority;
    env.precision = (uint8_t)group->precision;
    env.status = (uint8_t)group->status;
    if (group->digest) {
        env.digest = *group->digest;
        env.flags = (uint16_t)(FRAME_FLAG_DIGEST | (asked->flags & FRAME_FLAG_DIGEST_SHA256));
    }
    return env;
}

enum pen_status reply_add(struct reply *reply, const struct envelope *asked, const struct reply_group *group,
                          Penstock__ResultMeta *meta, struct pen_error *reterr)
{
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    size_t raw = 0, before = reply->frames_count;
    struct envelope env = result_envelope(asked, group);
    if (group->outputs_count > FRAME_MAX_TENSORS || reply->jobs_count == reply->jobs_room)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a result has no room for %zu outputs", group->outputs_count);
    tensors_encode(group->outputs, group->outputs_count, descs, pointers, order, &raw);
    if (1 + raw > reply->frames_room - reply->frames_count)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a result has no room for %zu frames", raw);
    meta->outputs = pointers;
    meta->n_outputs = group->outputs_count;
    env.frames = (uint8_t)raw;
    enum pen_status status = header_add(reply, &env, meta, reterr);
    size_t bytes = raw_bytes(group, order, raw);
    bool sealed =
        status == PEN_OK && reply->sealed_from > 0 && bytes > reply->sealed_from && raws_seal(reply, group, order, raw);
    if (status == PEN_OK && !sealed)
        status = raws_copy(reply, group, order, raw, reterr);
    reply->bytes += bytes;
    meta->outputs = NULL;
    meta->n_outputs = 0;
    if (status != PEN_OK) {
        frames_cut(reply, before);
        return status;
    }
    PEN_ASSERT(reply->jobs_count < reply->jobs_room, "a reply has a row for each of its jobs");
    reply->jobs[reply->jobs_count++] = asked->job;
    return PEN_OK;
}

enum pen_status reply_add_error(struct reply *reply, const struct envelope *env, const struct identity *identity,
                                enum pen_status status, const char *text, const char *debug_log, uint64_t worker_us)
{
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    meta.error = meta_text(text);
    meta.worker = meta_text(identity->worker);
    meta.backend = meta_text(identity->backend);
    meta.debug_log = meta_text(debug_log ? debug_log : "");
    meta.worker_us = worker_us;
    return reply_add(reply, env, &(struct reply_group){.status = status, .precision = PRECISION_ANY}, &meta, NULL);
}

int reply_send(struct reply *reply, void *socket)
{
    int result = 0;
    for (size_t i = 0; i < reply->frames_count && result == 0; i++) {
        int more = i + 1 < reply->frames_count ? ZMQ_SNDMORE : 0;
        result = zmq_msg_send(&reply->frames[i], socket, ZMQ_DONTWAIT | more) < 0 ? -1 : 0;
    }
    int error = errno;
    reply_free(reply); /* closing a sent message is allowed and does nothing */
    errno = error;
    return result;
}

/* ---- the way to the network thread ------------------------------------------------------------------------------------------------ */

struct outbox *outbox_new(void)
{
    struct outbox *outbox = calloc(1, sizeof *outbox);
    if (!outbox)
        return NULL;
    outbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (outbox->fd < 0) {
        free(outbox);
        return NULL;
    }
    return outbox;
}

void outbox_free(struct outbox *outbox)
{
    if (!outbox)
        return;
    for (struct reply *reply = outbox_take_all(outbox), *next; reply; reply = next) {
        next = reply->next;
        reply_free(reply);
    }
    close(outbox->fd);
    free(outbox);
}

int outbox_fd(const struct outbox *outbox)
{
    return outbox->fd;
}

void outbox_wake(struct outbox *outbox)
{
    uint64_t one = 1;
    if (write(outbox->fd, &one, sizeof one) < 0) {
        /* EAGAIN: 2^64 wakes are pending, one more changes nothing */
    }
}

/* Sequentially consistent on purpose: either this push is seen by outbox_sleep, or `sleeping` is seen here. */
void outbox_push(struct outbox *outbox, struct reply *reply)
{
    struct reply *head = atomic_load(&outbox->head);
    do
        reply->next = head;
    while (!atomic_compare_exchange_weak(&outbox->head, &head, reply));
    if (atomic_exchange(&outbox->sleeping, false))
        outbox_wake(outbox);
}

struct reply *outbox_take_all(struct outbox *outbox)
{
    struct reply *oldest = NULL;
    if (!atomic_load_explicit(&outbox->head, memory_order_relaxed))
        return NULL;
    for (struct reply *reply = atomic_exchange(&outbox->head, NULL), *next; reply; reply = next) {
        next = reply->next;
        reply->next = oldest;
        oldest = reply;
    }
    return oldest;
}

bool outbox_sleep(struct outbox *outbox)
{
    atomic_store(&outbox->sleeping, true);
    if (!atomic_load(&outbox->head))
        return true;
    atomic_store(&outbox->sleeping, false);
    return false;
}

void outbox_awake(struct outbox *outbox, bool signalled)
{
    uint64_t wakes;
    atomic_store(&outbox->sleeping, false);
    if (signalled && read(outbox->fd, &wakes, sizeof wakes) < 0) {
        /* EAGAIN: another thread's wake was taken already */
    }
}
