/* inbox.c - receive, check, move frames; no protobuf is opened here. */
#include "inbox.h"

#include "cutout.h"
#include "pictures.h"

#include "assertion.h"
#include "deadline.h"
#include "pack.h"
#include "words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct inbox {
    zmq_msg_t frames[INBOX_FRAMES_MAX]; /* [0, count) are open */
    size_t count;
    zmq_msg_t pack;            /* that is being read; empty: none is */
    struct pack_reader reader; /* what is left of it */
};

static void inbox_clear(struct inbox *inbox)
{
    while (inbox->count > 0)
        zmq_msg_close(&inbox->frames[--inbox->count]);
}

struct inbox *inbox_new(void)
{
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox)
        zmq_msg_init(&inbox->pack);
    return inbox;
}

void inbox_free(struct inbox *inbox)
{
    if (!inbox)
        return;
    inbox_clear(inbox);
    zmq_msg_close(&inbox->pack);
    free(inbox);
}

/* ---- packs ---- */

bool inbox_holds(const struct inbox *inbox)
{
    return inbox->reader.at != inbox->reader.end;
}

void inbox_drop(struct inbox *inbox)
{
    zmq_msg_close(&inbox->pack);
    zmq_msg_init(&inbox->pack);
    inbox->reader = (struct pack_reader){.at = NULL};
}

/* The frames of the next message of the PACK, copied, because slots keep them. */
static enum pen_status frames_unpack(struct inbox *inbox, size_t *ret_bytes, struct pen_error *reterr)
{
    struct pack_item item = {.more = true};
    size_t bytes = 0;
    while (item.more && pack_next(&inbox->reader, &item)) { /* PACK_FRAMES_MAX at most: there is room */
        zmq_msg_t *frame = &inbox->frames[inbox->count];
        if (zmq_msg_init_size(frame, item.bytes) != 0) {
            inbox_drop(inbox);
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a message of a PACK");
        }
        memcpy(zmq_msg_data(frame), item.data, item.bytes);
        bytes += item.bytes;
        inbox->count++;
    }
    *ret_bytes = bytes;
    return PEN_OK;
}

/* The PACK is the only frame of the message that came. */
static enum pen_status pack_take(struct inbox *inbox, struct pen_error *reterr)
{
    struct envelope env;
    struct pack_reader reader;
    const uint8_t *meta;
    zmq_msg_t *frame = &inbox->frames[0];
    enum pen_status status = envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, reterr);
    if (status == PEN_OK)
        status = pack_reader_open(&reader, meta, env.meta_bytes, reterr);
    if (status != PEN_OK)
        return status;
    inbox->reader = reader;
    zmq_msg_move(&inbox->pack, frame); /* its bytes are too many to lie in the zmq_msg_t */
    inbox_clear(inbox);
    return PEN_OK;
}

/* Throws away the rest of a message that has too many frames. */
static void drain(void *socket)
{
    zmq_msg_t frame;
    int more = 1;
    while (more) {
        zmq_msg_init(&frame);
        more = zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
}

static enum pen_status socket_receive(struct inbox *inbox, void *socket, size_t *ret_bytes, struct pen_error *reterr)
{
    size_t bytes = 0;
    for (;;) {
        zmq_msg_t *frame = &inbox->frames[inbox->count];
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0) {
            const int error = errno;
            zmq_msg_close(frame);
            if (error == EINTR) /* a signal, anywhere between two frames */
                continue;
            return inbox->count == 0
                       ? PEN_ERR_UNAVAILABLE
                       : pen_error_set(reterr, PEN_ERR_CORRUPT, "a message broke off after %zu frames: %s",
                                       inbox->count, zmq_strerror(error));
        }
        bytes += zmq_msg_size(frame);
        inbox->count++;
        if (!zmq_msg_more(frame))
            break;
        if (inbox->count == INBOX_FRAMES_MAX) {
            drain(socket);
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a message has more than %u frames", INBOX_FRAMES_MAX);
        }
    }
    *ret_bytes = bytes;
    return PEN_OK;
}

static enum pen_status frames_receive(struct inbox *inbox, void *socket, size_t *ret_bytes, struct pen_error *reterr)
{
    if (inbox_holds(inbox))
        return frames_unpack(inbox, ret_bytes, reterr);
    inbox_drop(inbox);
    enum pen_status status = socket_receive(inbox, socket, ret_bytes, reterr);
    if (status != PEN_OK || inbox->count != 1 ||
        !pack_is(zmq_msg_data(&inbox->frames[0]), zmq_msg_size(&inbox->frames[0])))
        return status;
    status = pack_take(inbox, reterr);
    return status == PEN_OK ? frames_unpack(inbox, ret_bytes, reterr) : status;
}

enum pen_status inbox_receive(struct inbox *inbox, void *socket, struct message *ret_message, struct pen_error *reterr)
{
    struct message message = {.frames = inbox->frames};
    inbox_clear(inbox);
    enum pen_status status = frames_receive(inbox, socket, &message.bytes, reterr);
    if (status == PEN_OK)
        status = envelope_decode(zmq_msg_data(&inbox->frames[0]), zmq_msg_size(&inbox->frames[0]), &message.env,
                                 &message.meta, reterr);
    if (status != PEN_OK)
        return status;
    message.frames_count = inbox->count;
    *ret_message = message;
    return PEN_OK;
}

/* Counts the groups; every frame must belong to a group. */
static enum pen_status groups_count(const struct message *message, size_t *ret_groups, size_t *ret_announced,
                                    struct pen_error *reterr)
{
    size_t groups = 0, announced = 0;
    for (size_t at = 0; at < message->frames_count; groups++) {
        struct envelope env;
        const uint8_t *meta;
        zmq_msg_t *frame = &message->frames[at];
        enum pen_status status = envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, reterr);
        if (status != PEN_OK)
            return status;
        if (groups == FRAME_MAX_GROUPS)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a dispatch has more than %u jobs", FRAME_MAX_GROUPS);
        if (env.type != FRAME_SUBMIT)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "group %zu of a dispatch is %s %s", groups,
                                 words_article(frame_type_name(env.type)), frame_type_name(env.type));
        size_t frames = env.transfer ? 0 : env.frames; /* announced frames come as chunks */
        if (frames >= message->frames_count - at)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "group %zu announces %u frames, %zu follow", groups,
                                 env.frames, message->frames_count - at - 1);
        at += 1u + frames;
        announced += env.frames - frames;
    }
    *ret_groups = groups;
    *ret_announced = announced;
    return PEN_OK;
}

static void jobs_fill(struct dispatch *dispatch, uint64_t now_us)
{
    size_t at = 0;
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        struct job *job = &dispatch->jobs[i];
        zmq_msg_t *frame = &dispatch->frames[at];
        envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &job->env, &job->meta, NULL); /* checked before */
        job->received_us = now_us;
        job->deadline_us = deadline_at(now_us, job->env.deadline_us);
        job->first_frame = (uint32_t)at + 1;
        at += 1u + job->env.frames;
    }
    PEN_ASSERT(at == dispatch->frames_count, "the frames of a dispatch are those of its jobs");
}

/* Announced frames are empty until their bytes have come. */
static void frames_take(struct dispatch *dispatch, struct message *message)
{
    for (size_t from = 0, to = 0; from < message->frames_count;) {
        struct envelope env;
        const uint8_t *meta;
        zmq_msg_t *header = &message->frames[from];
        envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL); /* checked before */
        for (size_t i = 0; i <= env.frames; i++, to++) {
            zmq_msg_init(&dispatch->frames[to]);
            if (i == 0 || !env.transfer)
                zmq_msg_move(&dispatch->frames[to], &message->frames[from++]);
        }
    }
}

enum pen_status inbox_dispatch(struct inbox *inbox, struct message *message, uint64_t now_us,
                               struct dispatch **ret_dispatch, struct pen_error *reterr)
{
    size_t groups = 0, announced = 0;
    enum pen_status status = groups_count(message, &groups, &announced, reterr);
    if (status != PEN_OK)
        return status;
    struct dispatch *dispatch = calloc(1, sizeof *dispatch + groups * sizeof(struct job) +
                                              (message->frames_count + announced) * sizeof(zmq_msg_t));
    if (!dispatch)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a dispatch of %zu jobs", groups);
    dispatch->received_us = now_us;
    dispatch->bytes = message->bytes;
    dispatch->jobs = (struct job *)(dispatch + 1);
    dispatch->jobs_count = groups;
    dispatch->frames = (zmq_msg_t *)(dispatch->jobs + groups);
    dispatch->frames_count = message->frames_count + announced;
    PEN_ASSERT(groups > 0 && groups <= FRAME_MAX_GROUPS, "a dispatch has jobs, and no more than a message may have");
    frames_take(dispatch, message);
    inbox_clear(inbox);
    jobs_fill(dispatch, now_us); /* after the move: small messages live inside their zmq_msg_t */
    *ret_dispatch = dispatch;
    return PEN_OK;
}

void dispatch_free(struct dispatch *dispatch)
{
    if (!dispatch)
        return;
    for (size_t i = 0; i < dispatch->frames_count; i++)
        zmq_msg_close(&dispatch->frames[i]);
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        pictures_free(dispatch->jobs[i].pictures);
        uncut_free(dispatch->jobs[i].uncut);
    }
    free(dispatch->parts);
    free(dispatch);
}

void dispatch_split(struct dispatch *dispatch)
{
    PEN_ASSERT(!dispatch->parts && !dispatch->whole, "a dispatch is split once, and its parts never");
    dispatch->parts = calloc(dispatch->jobs_count, sizeof *dispatch->parts);
    dispatch->parts_left = dispatch->parts ? dispatch->jobs_count : 0;
    for (size_t i = 0; i < dispatch->parts_left; i++)
        dispatch->parts[i] = (struct dispatch){.link = dispatch->link,
                                               .whole = dispatch,
                                               .received_us = dispatch->received_us,
                                               .bytes = dispatch->bytes / dispatch->jobs_count,
                                               .jobs = &dispatch->jobs[i],
                                               .jobs_count = 1,
                                               .frames = dispatch->frames,
                                               .frames_count = dispatch->frames_count};
}

struct dispatch *dispatch_finish(struct dispatch *dispatch)
{
    struct dispatch *whole = dispatch->whole;
    if (!whole)
        return dispatch;
    PEN_ASSERT(whole->parts_left > 0 && whole->parts_left <= whole->jobs_count,
               "each part of a dispatch is finished once");
    return --whole->parts_left == 0 ? whole : NULL;
}
