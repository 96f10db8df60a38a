#include "transfer.h"

#include "assertion.h"
#include "deadline.h"
#include "job.pb-c.h"
#include "large_frame.h"
#include "link_pack.h"
#include "tensor_codec.h"
#include "urgency.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define META_ARENA_BYTES (1024u * 1024u)
#define AGAIN_US         2000u

/* A job of a dispatch whose bytes are still coming. */
struct arriving {
    struct job *job;
    struct bulk run;
    bool awaited;
    bool untold; /* granted credit that was not sent for want of memory */
};

struct arrival {
    struct arrival *next;
    struct dispatch *dispatch;
    size_t count, awaited;
    struct arriving jobs[];
};

/* The result of one job on its way out. */
struct departure {
    struct departure *next;
    struct reply *reply;
    struct bulk run;
};

/* ---- what comes -------------------------------------------------------------------------------------------------------------------- */

bool transfer_announced(const struct dispatch *dispatch)
{
    for (size_t i = 0; i < dispatch->jobs_count; i++)
        if (dispatch->jobs[i].env.transfer != 0)
            return true;
    return false;
}

static enum pen_status expect(const struct job *job, uint64_t frame_limit, struct bulk *ret_run,
                              struct pen_error *reterr)
{
    struct meta_arena arena;
    meta_arena_init(&arena, META_ARENA_BYTES);
    const Penstock__JobMeta *meta =
        meta_unpack(&arena, &penstock__job_meta__descriptor, job->meta, job->env.meta_bytes);
    enum pen_status status =
        meta ? bulk_expect(ret_run, job->env.transfer, meta->inputs, meta->n_inputs, job->env.frames, frame_limit, 0,
                           reterr)
        : arena.starved ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the worker has no memory for the job's meta")
                        : meta_refusal(&arena, "the job's meta is no JobMeta", reterr);
    meta_arena_fini(&arena);
    return status;
}

enum pen_status transfer_measure(struct dispatch *dispatch, uint64_t frame_limit, struct pen_error *reterr)
{
    struct bulk run;
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        if (dispatch->jobs[i].env.transfer == 0)
            continue;
        enum pen_status status = expect(&dispatch->jobs[i], frame_limit, &run, reterr);
        if (status != PEN_OK)
            return status;
        if (run.total > SIZE_MAX - dispatch->bytes)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the announced jobs exceed the address space");
        dispatch->bytes += (size_t)run.total;
    }
    return PEN_OK;
}

/* A credit that finds no memory is sent a little later. */
static void tell_credit(struct link *link, struct arriving *arriving, uint64_t now_us)
{
    const struct bulk *run = &arriving->run;
    struct envelope env = bulk_envelope(FRAME_CREDIT, arriving->job->env.job, run->number, run->granted);
    arriving->untold = !link_send_envelope(link, &env);
    if (arriving->untold)
        link->transfers.again_us = now_us + AGAIN_US;
}

static void tell_again(struct link *link, uint64_t now_us)
{
    for (struct arrival *arrival = link->transfers.arrivals; arrival; arrival = arrival->next)
        for (size_t i = 0; i < arrival->count; i++)
            if (arrival->jobs[i].awaited && arrival->jobs[i].untold)
                tell_credit(link, &arrival->jobs[i], now_us);
}

static bool connect_bulk(struct link *link)
{
    struct pen_error error = {0};
    if (!link->transfers.socket && link_attach(link, &error) != PEN_OK)
        log_event(LOG_ERROR, "connect_failed", "error=%s", error.text);
    return link->transfers.socket != NULL;
}

static bool take_memory(struct dispatch *dispatch, const struct arriving *arriving)
{
    for (uint32_t i = 0; i < arriving->run.count; i++)
        if (large_frame_new(&dispatch->frames[arriving->job->first_frame + i], arriving->run.sizes[i]) != 0) {
            zmq_msg_init(&dispatch->frames[arriving->job->first_frame + i]);
            return false;
        }
    return true;
}

static struct arrival *arrival_new(struct dispatch *dispatch)
{
    struct arrival *arrival = calloc(1, sizeof *arrival + dispatch->jobs_count * sizeof arrival->jobs[0]);
    bool whole = arrival != NULL;
    if (arrival)
        arrival->dispatch = dispatch;
    for (size_t i = 0; whole && i < dispatch->jobs_count; i++) {
        if (dispatch->jobs[i].env.transfer == 0)
            continue;
        struct arriving *arriving = &arrival->jobs[arrival->count++];
        arriving->job = &dispatch->jobs[i];
        arriving->awaited = true;
        whole = expect(arriving->job, 0, &arriving->run, NULL) == PEN_OK && take_memory(dispatch, arriving);
    }
    if (whole) {
        arrival->awaited = arrival->count;
        return arrival;
    }
    free(arrival);
    return NULL;
}

enum pen_status transfer_ask(struct link *link, struct dispatch *dispatch, uint64_t now_us, struct pen_error *reterr)
{
    struct arrival *arrival = connect_bulk(link) ? arrival_new(dispatch) : NULL;
    if (!arrival)
        return pen_error_set(reterr, PEN_ERR_BUSY, "this worker has no memory for %zu bytes of announced jobs",
                             dispatch->bytes);
    if (!link->transfers.arrivals)
        link->transfers.moved_us = now_us;
    arrival->next = link->transfers.arrivals;
    link->transfers.arrivals = arrival;
    for (size_t i = 0; i < arrival->count; i++) {
        bulk_grant(&arrival->jobs[i].run);
        tell_credit(link, &arrival->jobs[i], now_us);
    }
    return PEN_OK;
}

static struct arrival *arrival_find(const struct link *link, const struct envelope *env, struct arriving **ret_job)
{
    for (struct arrival *arrival = link->transfers.arrivals; arrival; arrival = arrival->next)
        for (size_t i = 0; i < arrival->count; i++) {
            struct arriving *job = &arrival->jobs[i];
            if (job->awaited && job->run.number == env->transfer && job_id_equal(job->job->env.job, env->job)) {
                *ret_job = job;
                return arrival;
            }
        }
    return NULL;
}

/* One job of the dispatch has all its bytes, or is not wanted. Gives the dispatch when it was the last one. */
static struct dispatch *arrived(struct link *link, struct arrival *arrival, struct arriving *job)
{
    struct dispatch *dispatch = arrival->dispatch;
    job->awaited = false;
    if (--arrival->awaited > 0)
        return NULL;
    struct arrival **at = &link->transfers.arrivals;
    while (*at != arrival)
        at = &(*at)->next;
    *at = arrival->next;
    free(arrival);
    return dispatch;
}

enum pen_status transfer_chunk(struct link *link, const struct message *message, uint64_t now_us,
                               struct dispatch **ret_complete)
{
    struct arriving *job;
    struct bulk_piece piece;
    struct arrival *arrival = arrival_find(link, &message->env, &job);
    *ret_complete = NULL;
    if (!arrival)
        return PEN_OK; /* of a job that was cancelled in the meantime */
    if (message->frames_count != 2 ||
        !bulk_accept(&job->run, message->env.offset, zmq_msg_size(&message->frames[1]), &piece))
        return PEN_ERR_INVALID;
    zmq_msg_t *frame = &arrival->dispatch->frames[job->job->first_frame + piece.frame];
    memcpy((uint8_t *)zmq_msg_data(frame) + piece.at, zmq_msg_data(&message->frames[1]), piece.bytes);
    urgency_make_way();
    link->transfers.moved_us = now_us;
    if (bulk_done(&job->run))
        *ret_complete = arrived(link, arrival, job);
    else if (bulk_grant(&job->run))
        tell_credit(link, job, now_us);
    return PEN_OK;
}

struct dispatch *transfer_cancel(struct link *link, const struct job *job)
{
    struct arriving *arriving;
    struct arrival *arrival = job->env.transfer != 0 ? arrival_find(link, &job->env, &arriving) : NULL;
    if (!arrival)
        return NULL;
    for (uint32_t i = 0; i < arriving->run.count; i++) {
        zmq_msg_t *frame = &arrival->dispatch->frames[job->first_frame + i];
        zmq_msg_close(frame);
        zmq_msg_init(frame);
    }
    PEN_ASSERT(arrival->dispatch->bytes >= arriving->run.total && link->in_flight.bytes >= arriving->run.total,
               "a payload that is not awaited any more was counted in its dispatch, and that in its broker's");
    arrival->dispatch->bytes -= (size_t)arriving->run.total; /* transfer_measure added it */
    link->in_flight.bytes -= (size_t)arriving->run.total;
    return arrived(link, arrival, arriving);
}

struct job *transfer_late(const struct link *link, uint64_t now_us, struct dispatch **ret_dispatch)
{
    for (const struct arrival *arrival = link->transfers.arrivals; arrival; arrival = arrival->next)
        for (size_t i = 0; i < arrival->count; i++)
            if (arrival->jobs[i].awaited && arrival->jobs[i].job->deadline_us <= now_us) {
                *ret_dispatch = arrival->dispatch;
                return arrival->jobs[i].job;
            }
    return NULL;
}

uint64_t transfer_late_us(const struct link *link)
{
    uint64_t first_us = DEADLINE_NONE;
    for (const struct arrival *arrival = link->transfers.arrivals; arrival; arrival = arrival->next)
        for (size_t i = 0; i < arrival->count; i++)
            if (arrival->jobs[i].awaited && arrival->jobs[i].job->deadline_us < first_us)
                first_us = arrival->jobs[i].job->deadline_us;
    return first_us;
}

bool transfer_stalled(const struct link *link, uint64_t now_us)
{
    return link->transfers.arrivals && now_us - link->transfers.moved_us >= link->liveness_us;
}

/* ---- what goes --------------------------------------------------------------------------------------------------------------------- */

/* Takes the group at `at` out as a reply of its own; its frames in the old reply are empty then. */
static struct reply *group_take(struct reply *reply, size_t at, const struct envelope *env)
{
    struct reply *own = reply_new(1, 1u + env->frames);
    if (!own)
        return NULL;
    for (size_t i = 0; i <= env->frames; i++) {
        zmq_msg_init(&own->frames[i]);
        zmq_msg_move(&own->frames[i], &reply->frames[at + i]);
        own->bytes += i > 0 ? zmq_msg_size(&own->frames[i]) : 0;
    }
    own->frames_count = 1u + env->frames;
    own->jobs[own->jobs_count++] = env->job;
    own->link = reply->link;
    return own;
}

static bool announce(struct link *link, const struct departure *departure)
{
    zmq_msg_t header, *kept = &departure->reply->frames[0];
    size_t bytes = zmq_msg_size(kept);
    if (zmq_msg_init_size(&header, bytes) != 0)
        return false;
    memcpy(zmq_msg_data(&header), zmq_msg_data(kept), bytes);
    frame_set_transfer(zmq_msg_data(&header), departure->run.number);
    bool sent = link_flush(link) && zmq_msg_send(&header, link->socket, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&header);
    return sent;
}

/* False: the group must be sent whole. */
static bool depart(struct link *link, struct reply *own)
{
    struct departure *departure = calloc(1, sizeof *departure);
    if (!departure)
        return false;
    link->transfers.numbers += link->transfers.numbers == UINT32_MAX ? 2 : 1; /* 0 means none */
    departure->reply = own;
    bulk_init(&departure->run, link->transfers.numbers);
    for (size_t i = 1; i < own->frames_count; i++)
        bulk_add(&departure->run, zmq_msg_size(&own->frames[i]));
    if (!announce(link, departure)) {
        free(departure);
        return false;
    }
    departure->next = link->transfers.departures;
    link->transfers.departures = departure;
    return true;
}

static size_t group_bytes(const struct reply *reply, size_t at, size_t frames)
{
    size_t bytes = 0;
    for (size_t i = 1; i <= frames; i++)
        bytes += zmq_msg_size(&reply->frames[at + i]);
    return bytes;
}

static void frames_drop(struct reply *reply, size_t at, size_t count, struct job_id id)
{
    for (size_t i = at; i + count < reply->frames_count; i++)
        zmq_msg_move(&reply->frames[i], &reply->frames[i + count]);
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&reply->frames[--reply->frames_count]);
    size_t kept = 0;
    for (size_t i = 0; i < reply->jobs_count; i++)
        if (!job_id_equal(reply->jobs[i], id))
            reply->jobs[kept++] = reply->jobs[i];
    reply->jobs_count = kept;
}

struct reply *transfer_depart(struct link *link, struct reply *reply)
{
    struct envelope env;
    const uint8_t *meta;
    for (size_t at = 0;
         link->transfers.from_bytes > 0 && reply->bytes > link->transfers.from_bytes && at < reply->frames_count;) {
        zmq_msg_t *header = &reply->frames[at];
        if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK)
            break;          /* our own: cannot be */
        if (env.transfer) { /* its frames went ahead: link_sealed.h */
            at++;
            continue;
        }
        if (group_bytes(reply, at, env.frames) <= link->transfers.from_bytes) {
            at += 1u + env.frames;
            continue;
        }
        struct reply *own = group_take(reply, at, &env);
        if (!own)
            break;
        frames_drop(reply, at, 1u + env.frames, env.job);
        PEN_ASSERT(reply->bytes >= own->bytes, "what leaves a reply has been counted in it");
        reply->bytes -= own->bytes;
        if (!depart(link, own))
            reply_send(own, link->socket);
    }
    if (reply->frames_count > 0)
        return reply;
    reply_free(reply);
    return NULL;
}

/* ZeroMQ's free function, on its I/O thread: the reference to the whole frame that a piece was cut from. */
static void uncut(void *data, void *hint)
{
    (void)data;
    zmq_msg_close(hint);
    free(hint);
}

static int cut(zmq_msg_t *whole, const struct bulk_piece *piece, zmq_msg_t *ret_frame)
{
    zmq_msg_t *reference = malloc(sizeof *reference);
    if (!reference)
        return -1;
    zmq_msg_init(reference);
    if (zmq_msg_copy(reference, whole) == 0 &&
        zmq_msg_init_data(ret_frame, (uint8_t *)zmq_msg_data(reference) + piece->at, piece->bytes, uncut, reference) ==
            0)
        return 0;
    uncut(NULL, reference);
    return -1;
}

static bool send_piece(struct link *link, const struct departure *departure, const struct bulk_piece *piece,
                       uint64_t offset)
{
    struct envelope env = bulk_envelope(FRAME_CHUNK, departure->reply->jobs[0], departure->run.number, offset);
    zmq_msg_t header, bytes;
    if (cut(&departure->reply->frames[1 + piece->frame], piece, &bytes) != 0)
        return false;
    if (zmq_msg_init_size(&header, FRAME_ENVELOPE_BYTES) != 0) {
        zmq_msg_close(&bytes);
        return false;
    }
    envelope_encode(&env, zmq_msg_data(&header));
    bool sent = zmq_msg_send(&header, link->transfers.socket, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0 &&
                zmq_msg_send(&bytes, link->transfers.socket, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&header); /* of a frame that was sent, nothing is left */
    zmq_msg_close(&bytes);
    return sent;
}

static void departed(struct link *link, struct departure *departure)
{
    struct departure **at = &link->transfers.departures;
    while (*at != departure)
        at = &(*at)->next;
    *at = departure->next;
    reply_free(departure->reply);
    free(departure);
}

static struct departure *departure_find(const struct link *link, const struct envelope *env)
{
    struct departure *departure = link->transfers.departures;
    while (departure && (departure->run.number != env->transfer || !job_id_equal(departure->reply->jobs[0], env->job)))
        departure = departure->next;
    return departure;
}

/* Sends pieces as far as the credit allows. A piece that finds no memory is sent a little later. */
static void send_pieces(struct link *link, struct departure *departure, uint64_t now_us)
{
    struct bulk_piece piece;
    uint64_t offset = departure->run.moved;
    bool sent = connect_bulk(link);
    while (sent && bulk_next(&departure->run, &piece)) {
        sent = send_piece(link, departure, &piece, offset);
        if (!sent)
            bulk_back(&departure->run, &piece);
        offset = departure->run.moved;
    }
    if (!sent)
        link->transfers.again_us = now_us + AGAIN_US;
    if (bulk_done(&departure->run))
        departed(link, departure);
}

void transfer_credit(struct link *link, const struct envelope *env, uint64_t now_us)
{
    struct departure *departure = departure_find(link, env);
    if (!departure)
        return;
    if (env->status != PEN_OK)
        departed(link, departure);
    else if (bulk_credited(&departure->run, env->offset))
        send_pieces(link, departure, now_us);
}

void transfer_again(struct link *link, uint64_t now_us)
{
    if (now_us < transfer_again_us(link))
        return;
    link->transfers.again_us = 0;
    tell_again(link, now_us);
    for (struct departure *departure = link->transfers.departures, *next; departure; departure = next) {
        next = departure->next;
        if (departure->run.moved < departure->run.granted)
            send_pieces(link, departure, now_us);
    }
}

uint64_t transfer_again_us(const struct link *link)
{
    return link->transfers.again_us ? link->transfers.again_us : DEADLINE_NONE;
}

static void bulk_close(struct link *link)
{
    struct transfers *t = &link->transfers;
    if (!t->socket)
        return;
    zmq_close(t->socket);
    t->socket = NULL;
    if (bulk_way_end(&t->way, clock_now_us()))
        log_event(LOG_WARN, "bulk_unreachable", "broker=%s port=%" PRIu32 " error=%s", link->endpoint, t->way.port,
                  "the broker's port of --bulk-workers cannot be reached: large payloads go to the endpoint itself");
}

/* ---- the end of a connection ------------------------------------------------------------------------------------------------------- */

struct reply *transfer_reset(struct link *link)
{
    struct transfers *t = &link->transfers;
    struct reply *unsent = NULL;
    while (t->arrivals) {
        struct arrival *arrival = t->arrivals;
        t->arrivals = arrival->next;
        in_flight_remove(&link->in_flight, arrival->dispatch);
        dispatch_free(arrival->dispatch);
        free(arrival);
    }
    while (t->departures) { /* newest first, so the list becomes oldest first */
        struct departure *departure = t->departures;
        t->departures = departure->next;
        departure->reply->next = unsent;
        unsent = departure->reply;
        free(departure);
    }
    bulk_close(link);
    t->from_bytes = 0;
    t->again_us = 0;
    return unsent;
}
