#include "parcels.h"

#include "assertion.h"
#include "job.h"
#include "parcel_frames.h"

#define LOST_MAX 3u /* connections in a row */

void parcels_reset(struct pen_client *c)
{
    parcel_close(&c->parcels);
    c->sealed_from = 0;
}

void parcels_welcome(struct pen_client *c, const Penstock__Welcome *welcome)
{
    parcels_reset(c);
    if (c->sealed_lost >= LOST_MAX || !*welcome->sealed_name || welcome->sealed_bytes == 0 ||
        welcome->sealed_secret.len != PARCEL_SECRET_BYTES) {
        return;
    }
    if (parcel_ask(&c->parcels, welcome->sealed_name, welcome->sealed_secret.data, c->session.uuid, false)) {
        c->sealed_from = welcome->sealed_bytes;
    }
}

void parcels_upset(struct pen_client *c)
{
    c->sealed_lost += c->parcels.state == PARCEL_BOUND && c->parcels.numbers > 0;
}

uint64_t parcels_from(struct pen_client *c)
{
    return c->sealed_from && parcel_ready(&c->parcels) ? c->sealed_from : 0;
}

/* ---- jobs ---- */

static bool parcel_fill(const struct pen_job *job, struct sealed *block, struct parcel *parcel)
{
    bool all = true;
    for (size_t i = 0; all && i < job->frames_count; i++) {
        const uint8_t *data = job->frames[i].data;
        PEN_ASSERT(data >= sealed_data(block) && data < sealed_data(block) + sealed_bytes(block),
                   "inputs in sealed memory lie in the payload's block");
        all = parcel_add(parcel, block, (size_t)(data - sealed_data(block)), job->frames[i].bytes);
    }
    return all;
}

bool parcels_submit(struct pen_client *c, struct pen_job *job, struct envelope env)
{
    struct parcel parcel = {.number = 0};
    struct sealed *block = payload_sealed(job->payload);
    if (!block || !parcel_fill(job, block, &parcel) || !parcel_send(&c->parcels, &parcel)) {
        return false;
    }
    env.frames = (uint8_t)job->frames_count;
    env.transfer = parcel.number;
    env.flags = (uint16_t)(env.flags | FRAME_FLAG_SEALED);
    return link_send(&c->link, env, job->meta, job->meta_bytes) == 0;
}

void parcels_answered(struct pen_client *c, const struct pen_job *job)
{
    if (payload_sealed(job->payload)) {
        c->sealed_lost = 0;
    }
}

/* ---- results ---- */

static bool frames_take(struct pen_client *c, struct incoming *in)
{
    const struct parcel_limits limits = {.frame_bytes_max = c->link.frame_bytes_max};
    struct pen_error ignored = {.status = PEN_OK};
    struct parcel parcel;
    if (parcel_take(&c->parcels, in->env.transfer, &limits, &parcel, &ignored) != PEN_OK) {
        return false;
    }
    bool made = parcel.frames_count == in->env.frames && parcel_frames_make(&parcel, in->frames) == 0;
    in->frames_count = made ? parcel.frames_count : 0;
    parcel_drop(&parcel);
    return made;
}

bool parcels_result(struct pen_client *c, struct incoming *in, struct incoming *ret_in)
{
    if (c->session.state != SESSION_READY) {
        return false; /* of the connection before: the broker sends it again */
    }
    if (!frames_take(c, in)) {
        c->counters.messages_bad++;
        c->sealed_lost++;
        c->session.drop_wanted = true;
        return false;
    }
    frame_set_sealed(zmq_msg_data(&in->header), 0);
    incoming_move(ret_in, in);
    return true;
}
