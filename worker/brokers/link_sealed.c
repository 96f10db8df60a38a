#include "link_sealed.h"

#include "assertion.h"
#include "parcel_frames.h"

void link_sealed_welcome(struct link *link, const Penstock__Welcome *welcome)
{
    parcel_close(&link->parcels);
    link->sealed_from = welcome->sealed_bytes;
    if (welcome->sealed_secret.len == PARCEL_SECRET_BYTES && *welcome->sealed_name && welcome->sealed_bytes > 0)
        parcel_ask(&link->parcels, welcome->sealed_name, welcome->sealed_secret.data, hello_uuid(link->context->hello),
                   true);
}

/* ---- what comes ---- */

/* The frames of an announced job are empty until now. */
static enum pen_status job_fill(struct link *link, struct dispatch *dispatch, struct job *job, uint64_t frame_limit,
                                struct pen_error *reterr)
{
    const struct parcel_limits limits = {.frame_bytes_max = frame_limit};
    struct parcel parcel;
    if (parcel_take(&link->parcels, job->env.transfer, &limits, &parcel, reterr) != PEN_OK)
        return PEN_ERR_UNAVAILABLE;
    int made =
        parcel.frames_count == job->env.frames ? parcel_frames_make(&parcel, &dispatch->frames[job->first_frame]) : -1;
    if (made == 0)
        dispatch->bytes += (size_t)parcel_bytes(&parcel);
    parcel_drop(&parcel);
    if (made != 0)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no memory for the frames of a job, or not all of them came");
    job->env.transfer = 0;
    return PEN_OK;
}

enum pen_status link_sealed_take(struct link *link, struct dispatch *dispatch, uint64_t frame_limit,
                                 struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < dispatch->jobs_count; i++) {
        struct job *job = &dispatch->jobs[i];
        if (job->env.transfer != 0 && (job->env.flags & FRAME_FLAG_SEALED))
            status = job_fill(link, dispatch, job, frame_limit, reterr);
    }
    dispatch->sealed_from = parcel_ready(&link->parcels) ? link->sealed_from : 0;
    return status;
}

/* ---- what goes ---- */

/* Sends the frames behind the header at `at`. False: they do not lie in sealed memory, or cannot go so now. */
static bool group_send(struct link *link, struct reply *reply, size_t at, size_t frames)
{
    struct parcel parcel = {.number = 0};
    bool all = true;
    for (size_t i = 1; all && i <= frames; i++)
        all = parcel_add_frame(&parcel, &reply->frames[at + i]);
    if (!all || !parcel_send(&link->parcels, &parcel))
        return false;
    frame_set_sealed(zmq_msg_data(&reply->frames[at]), parcel.number);
    PEN_ASSERT(reply->bytes >= parcel_bytes(&parcel), "what leaves a reply has been counted in it");
    reply->bytes -= (size_t)parcel_bytes(&parcel);
    return true;
}

static void raws_drop(struct reply *reply, size_t at, size_t count)
{
    for (size_t i = at; i + count < reply->frames_count; i++)
        zmq_msg_move(&reply->frames[i], &reply->frames[i + count]);
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&reply->frames[--reply->frames_count]);
}

void link_sealed_send(struct link *link, struct reply *reply)
{
    struct envelope env;
    const uint8_t *meta;
    if (link->sealed_from == 0 || reply->bytes <= link->sealed_from || !parcel_ready(&link->parcels))
        return;
    for (size_t at = 0; at < reply->frames_count; at++) {
        zmq_msg_t *header = &reply->frames[at];
        if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK)
            return; /* our own: cannot be */
        if (env.frames > 0 && group_send(link, reply, at, env.frames))
            raws_drop(reply, at + 1, env.frames);
        else
            at += env.frames;
    }
}
