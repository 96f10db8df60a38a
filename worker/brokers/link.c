/* link.c - one DEALER socket at a time, and the messages on it besides results. */
#include "link.h"

#include "control.pb-c.h"
#include "link_pack.h"
#include "link_sealed.h"

#include "assertion.h"
#include "deadline.h"
#include "keys.h"
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEARTBEAT_US      1000000u /* until the broker says otherwise */
#define LIVENESS_US       5000000u
#define HEARTBEAT_US_MIN  1000u /* whatever a broker asks for: not more heartbeats than this */
#define LIVENESS_US_MIN   20000u
#define HELLO_WAIT_US     1000000u /* a hello without an answer is repeated on a new socket */
#define HELLO_DOUBLINGS   1u /* how often that wait doubles: a broker that answers slowly is not cut off each time */
#define MEMORY_WAIT_US    50000u /* the same wait when there was no memory to say hello */
#define RESUME_WAIT_US    50000u /* a second RESUME within this time answers messages that were sent before the hello */
#define COMPLAIN_US       10000000u /* between two lines about a silent broker */
#define UNSENT_BYTES_MAX  (256u * 1024u * 1024u)
#define WELCOME_BYTES_MAX 65536u

void link_init(struct link *link, const struct link_context *context, const char *endpoint, size_t held_jobs,
               size_t held_bytes)
{
    *link = (struct link){
        .context = context, .endpoint = endpoint, .heartbeat_us = HEARTBEAT_US, .liveness_us = LIVENESS_US};
    in_flight_init(&link->in_flight, held_jobs, held_bytes);
    meta_arena_init(&link->answer, WELCOME_BYTES_MAX * 4);
}

static void keep(struct link *link, struct reply *reply);

/* Results whose last byte was not sent wait for the next connection. */
static void transfers_end(struct link *link)
{
    for (struct reply *reply = transfer_reset(link), *next; reply; reply = next) {
        next = reply->next;
        keep(link, reply);
    }
}

void link_close(struct link *link, int linger_ms)
{
    transfers_end(link);
    parcel_close(&link->parcels);
    PEN_ASSERT(!link->transfers.socket && !link->transfers.arrivals && !link->transfers.departures,
               "no transfer outlives its connection");
    if (!link->socket)
        return;
    link_flush(link);
    pack_limit(&link->going, 0);
    zmq_setsockopt(link->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(link->socket);
    link->socket = NULL;
    link->state = LINK_CLOSED;
}

static void unsent_drop_first(struct link *link)
{
    struct reply *reply = link->unsent;
    PEN_ASSERT(link->unsent_bytes >= reply->bytes, "a reply that waits was counted with its bytes");
    link->unsent = reply->next;
    if (!link->unsent)
        link->unsent_last = NULL;
    link->unsent_bytes -= reply->bytes;
    PEN_ASSERT(link->unsent || link->unsent_bytes == 0, "without a reply that waits, no bytes wait");
    reply_free(reply);
}

void link_fini(struct link *link)
{
    while (link->unsent)
        unsent_drop_first(link);
    pack_fini(&link->going);
    meta_arena_fini(&link->answer);
    bulk_way_fini(&link->transfers.way);
    in_flight_fini(&link->in_flight);
}

void link_park(struct link *link, uint64_t until_us)
{
    link_close(link, 0);
    link->parked_until_us = until_us;
}

/* ---- connecting -------------------------------------------------------------------------------------------------------------------- */

static void set_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

/*
 * SNDHWM 0: a full queue would drop results silently, and the held jobs limit what can be on its way. RCVHWM is finite:
 * further messages stay in the broker.
 */
static void *socket_new(const struct link *link, void *context)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int64_t frame_limit = link->context->options->frame_limit;
    if (!socket)
        return NULL;
    set_int(socket, ZMQ_SNDHWM, 0);
    set_int(socket, ZMQ_RCVHWM, 1000);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_RECONNECT_IVL, 20);
    set_int(socket, ZMQ_RECONNECT_IVL_MAX, 500);
    set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5);
    set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_limit, sizeof frame_limit);
    return socket;
}

static enum pen_status hello_send(struct link *link, uint64_t now_us, struct pen_error *reterr)
{
    zmq_msg_t frame;
    PEN_ASSERT(link->socket && link->context->hello, "a hello has a connection to go on, and models to tell");
    if (!meta_arena_reserve(&link->answer))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the answer to the hello");
    enum pen_status status = hello_frame(link->context->hello, &link->in_flight, link->unsent, &frame, reterr);
    if (status != PEN_OK)
        return status;
    if (!link_flush(link) || zmq_msg_send(&frame, link->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&frame);
        return pen_error_set(reterr, PEN_ERR_IO, "cannot send the hello: %s", zmq_strerror(errno));
    }
    pack_limit(&link->going, 0); /* until the welcome */
    link->state = LINK_HELLO;
    link->hellos++;
    link->hello_us = link->received_us = link->beat_us = now_us;
    return PEN_OK;
}

/* Reads the key file for each socket, so that a new file counts for the next connection and no secret stays in
   memory. */
static enum pen_status use_keys(const struct link *link, void *socket, struct pen_error *reterr)
{
    struct key_set keys;
    enum pen_status status =
        key_set_read(link->context->options->key, link->context->options->broker_key, &keys, reterr);
    if (status != PEN_OK || !keys.used)
        return status;
    if (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys.broker, sizeof keys.broker) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys.own.public_key, sizeof keys.own.public_key) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.own.secret_key, sizeof keys.own.secret_key) != 0)
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this host's libzmq was built without CURVE");
    key_pair_wipe(&keys.own);
    return status;
}

enum pen_status link_connect(struct link *link, uint64_t now_us, struct pen_error *reterr)
{
    link_close(link, 0);
    link->pings = link->pongs = link->pings_owed = link->drain_ping = 0;
    link->gives_back = false;
    link->socket = socket_new(link, link->context->zmq);
    link->sockets++;
    if (!link->socket)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot open a socket: %s", zmq_strerror(errno));
    enum pen_status status = use_keys(link, link->socket, reterr);
    if (status != PEN_OK)
        return status;
    if (zmq_connect(link->socket, link->endpoint) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--broker %.256s is no endpoint (tcp://host:port, ipc://path): %s", link->endpoint,
                             zmq_strerror(errno));
    return hello_send(link, now_us, reterr);
}

enum pen_status link_attach(struct link *link, struct pen_error *reterr)
{
    char own[BULK_ENDPOINT_BYTES];
    struct envelope env = envelope_make(FRAME_ATTACH);
    bool apart = bulk_way_apart(&link->transfers.way, link->endpoint, own); /* or beside the ordinary connection */
    const char *endpoint = apart ? own : link->endpoint;
    void *socket = socket_new(link, apart ? link->transfers.way.context : link->context->zmq);
    if (!socket)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot open a socket: %s", zmq_strerror(errno));
    enum pen_status status = use_keys(link, socket, reterr);
    env.job.client = hello_uuid(link->context->hello);
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    envelope_encode(&env, bytes);
    if (apart)
        bulk_way_begin(&link->transfers.way, socket, clock_now_us());
    if (status == PEN_OK && (zmq_connect(socket, endpoint) != 0 ||
                             zmq_send(socket, bytes, sizeof bytes, ZMQ_DONTWAIT) != (int)sizeof bytes))
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot open a second connection to %.256s: %s", endpoint,
                               zmq_strerror(errno));
    if (status == PEN_OK)
        link->transfers.socket = socket;
    else {
        zmq_close(socket);
        bulk_way_end(&link->transfers.way, 0);
    }
    return status;
}

static uint64_t hello_wait_us(const struct link *link)
{
    return (uint64_t)HELLO_WAIT_US << (link->unanswered < HELLO_DOUBLINGS ? link->unanswered : HELLO_DOUBLINGS);
}

/* link_check() says hello again, as after one that nobody has answered. */
static void hello_again(struct link *link, enum pen_status why, uint64_t now_us)
{
    link->hello_us = now_us - (why == PEN_ERR_NO_MEMORY ? hello_wait_us(link) - MEMORY_WAIT_US : 0);
}

void link_reconnect(struct link *link, uint64_t now_us)
{
    struct pen_error error = {0};
    if (link_connect(link, now_us, &error) == PEN_OK)
        return;
    log_event(LOG_ERROR, "connect_failed", "error=%s", error.text);
    hello_again(link, error.status, now_us);
}

/* While transfers are under way, both connections are made anew, because their data is lost. */
void link_resume(struct link *link, uint64_t now_us)
{
    struct pen_error error = {0};
    if (link->state == LINK_HELLO && now_us - link->hello_us < RESUME_WAIT_US)
        return;
    bool anew = link->transfers.socket || link->transfers.departures;
    log_event(LOG_INFO, "resume", "broker=%s", link->endpoint);
    if (anew)
        link_reconnect(link, now_us);
    else if (hello_send(link, now_us, &error) != PEN_OK) /* what we say next brings another RESUME */
        log_event(LOG_ERROR, "hello_failed", "error=%s", error.text);
}

/* ---- welcome ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t in_force(int64_t own_us, uint64_t told_us, uint64_t otherwise_us, uint64_t least_us)
{
    uint64_t us = own_us > 0 ? (uint64_t)own_us : told_us > 0 ? told_us : otherwise_us;
    return us < least_us ? least_us : us;
}

/* A broker that had welcomed this worker may refuse it by accident, while its list of keys is damaged or being
   repaired. The hello's own time-out tries again. */
static bool denied_for_now(struct link *link, enum pen_status status, const char *text, uint64_t now_us)
{
    uint64_t wait_us = (uint64_t)link->context->options->denied_wait_us;
    if (status != PEN_ERR_DENIED || link->broker_uuid == 0 || wait_us == 0)
        return false;
    if (link->denied_us == 0) {
        link->denied_us = link->complained_us = now_us;
        log_event(LOG_WARN, "denied", "broker=%s again_for_us=%" PRIu64 " error=%s", link->endpoint, wait_us, text);
        notify_send("STATUS=the broker %s, which had welcomed this worker, denies it now", link->endpoint);
    }
    return true;
}

static void refused(struct link *link, enum pen_status status, const char *text)
{
    log_event(LOG_ERROR, "refused", "broker=%s status=%s error=%s", link->endpoint, pen_status_name(status), text);
    if (pen_status_retryable(status))
        return; /* the hello's own time-out tries again */
    link->state = LINK_REFUSED;
    link->exit_code = status == PEN_ERR_VERSION ? WORKER_EXIT_VERSION : WORKER_EXIT_REFUSED;
    PEN_ASSERT(link->exit_code != WORKER_EXIT_OK, "a worker that is refused does not end as if all were well");
}

static void unsent_flush(struct link *link)
{
    while (link->unsent) {
        struct reply *reply = link->unsent;
        link->unsent = reply->next;
        link->unsent_bytes -= reply->bytes;
        link_reply(link, reply);
    }
    link->unsent_last = NULL;
    PEN_ASSERT(link->unsent_bytes == 0, "all bytes that waited were those of the replies");
}

/* A WELCOME so large that its memory was not there before the hello may lack it now: the worker soon asks again. */
static void unreadable(struct link *link, uint64_t now_us)
{
    atomic_fetch_add(&link->context->stats->messages_dropped, 1);
    log_event(LOG_WARN, "message_dropped", "error=%s",
              link->answer.starved ? "no memory to read a WELCOME" : "a WELCOME has no readable meta");
    if (link->answer.starved)
        hello_again(link, PEN_ERR_NO_MEMORY, now_us);
}

void link_welcome(struct link *link, const struct envelope *env, const uint8_t *meta, uint64_t now_us)
{
    if (link->state != LINK_HELLO && link->state != LINK_SERVING)
        return;
    link->unanswered = 0;
    meta_arena_reset(&link->answer);
    const Penstock__Welcome *welcome =
        meta_unpack(&link->answer, &penstock__welcome__descriptor, meta, env->meta_bytes);
    const char *reason = welcome && welcome->error[0] ? welcome->error : "the broker gives no reason";
    if (env->status != PEN_OK) {
        if (!denied_for_now(link, (enum pen_status)env->status, reason, now_us))
            refused(link, (enum pen_status)env->status, reason);
    } else if (welcome) {
        link->heartbeat_us =
            in_force(link->context->options->heartbeat_us, welcome->heartbeat_us, HEARTBEAT_US, HEARTBEAT_US_MIN);
        link->liveness_us =
            in_force(link->context->options->liveness_us, welcome->liveness_us, LIVENESS_US, LIVENESS_US_MIN);
        link->max_frame_bytes = welcome->max_frame_bytes;
        link->transfers.from_bytes = welcome->bulk_bytes;
        if (link_flush(link))
            pack_limit(&link->going, welcome->pack_bytes);
        link_sealed_welcome(link, welcome);
        bulk_way_welcome(&link->transfers.way, welcome->broker_uuid, welcome->bulk_port, link->liveness_us);
        link->state = LINK_SERVING;
        PEN_ASSERT(link->socket && link->heartbeat_us >= HEARTBEAT_US_MIN && link->liveness_us >= LIVENESS_US_MIN,
                   "a broker that serves us has a connection, and times that can be kept");
        link->complained_us = link->denied_us = 0;
        log_event(LOG_INFO, "welcome",
                  "broker=%s software=%.64s heartbeat_us=%" PRIu64 " liveness_us=%" PRIu64 " restarted=%d",
                  link->endpoint, welcome->software, link->heartbeat_us, link->liveness_us,
                  link->broker_uuid != 0 && link->broker_uuid != welcome->broker_uuid);
        link->broker_uuid = welcome->broker_uuid;
        notify_send("STATUS=serving, broker %s", link->endpoint);
        unsent_flush(link);
    } else {
        unreadable(link, now_us);
    }
}

void link_version(struct link *link, const char *text)
{
    if (link->state == LINK_HELLO)
        refused(link, PEN_ERR_VERSION, text);
}

/* ---- sending ----------------------------------------------------------------------------------------------------------------------- */

static bool fits(const struct link *link, const struct reply *reply)
{
    for (size_t i = 0; link->max_frame_bytes > 0 && i < reply->frames_count; i++)
        if (zmq_msg_size(&reply->frames[i]) > link->max_frame_bytes)
            return false;
    return true;
}

/* A frame above the broker's limit would end the connection; the clients get an error with a sentence instead. */
static struct reply *too_large(struct link *link, struct reply *reply)
{
    char text[160];
    bool whole;
    struct reply *refusal = reply_new(reply->jobs_count, reply->jobs_count);
    snprintf(text, sizeof text, "the result has a frame above the %" PRIu64 " bytes that the broker takes",
             link->max_frame_bytes);
    whole = refusal != NULL;
    for (size_t i = 0; whole && i < reply->jobs_count; i++) {
        struct envelope env = envelope_make(FRAME_SUBMIT);
        env.job = reply->jobs[i];
        whole = reply_add_error(refusal, &env, link->context->identity, PEN_ERR_TOO_LARGE, text, NULL, 0) == PEN_OK;
    }
    reply_free(reply);
    if (whole)
        return refusal;
    reply_free(refusal);
    link_give_back(link);
    return NULL;
}

static void keep(struct link *link, struct reply *reply)
{
    reply->next = NULL;
    *(link->unsent_last ? &link->unsent_last->next : &link->unsent) = reply;
    link->unsent_last = reply;
    link->unsent_bytes += reply->bytes;
    PEN_ASSERT(link->unsent && (link->unsent == link->unsent_last || link->unsent->next),
               "the replies that wait lead to the newest");
    while (link->unsent_bytes > UNSENT_BYTES_MAX && link->unsent != link->unsent_last) {
        log_event(LOG_WARN, "result_dropped", "bytes=%zu error=%s", link->unsent->bytes,
                  "no broker, and too many results wait for one: the job will run again");
        unsent_drop_first(link);
    }
}

void link_reply(struct link *link, struct reply *reply)
{
    if (reply->frames_count == 0) {
        reply_free(reply);
        return;
    }
    if (link->state != LINK_SERVING) {
        keep(link, reply);
        return;
    }
    if (!fits(link, reply))
        reply = too_large(link, reply);
    if (reply) {
        link_sealed_send(link, reply);
        reply = transfer_depart(link, reply);
    }
    if (reply && link_pack_reply(link, reply) != 0) {
        log_event(LOG_ERROR, "send_failed", "error=%s", zmq_strerror(errno));
        link_give_back(link);
    }
}

/* False: no memory, no socket. */
static bool send_frame(struct link *link, const struct envelope *env, const ProtobufCMessage *meta)
{
    zmq_msg_t frame;
    if (!link->socket || !link_flush(link) || zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + env->meta_bytes) != 0)
        return false;
    uint8_t *to = envelope_encode(env, zmq_msg_data(&frame));
    if (meta)
        protobuf_c_message_pack(meta, to);
    bool sent = zmq_msg_send(&frame, link->socket, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&frame);
    return sent;
}

bool link_send_envelope(struct link *link, const struct envelope *env)
{
    return send_frame(link, env, NULL);
}

void link_send(struct link *link, enum frame_type type)
{
    struct envelope env = envelope_make(type);
    send_frame(link, &env, NULL);
}

/* PONGs are counted, so a PING that found no memory is sent later, in its place. */
static void pings_send(struct link *link)
{
    const struct envelope env = envelope_make(FRAME_PING);
    while (link->pings_owed > 0 && send_frame(link, &env, NULL))
        link->pings_owed--;
}

uint64_t link_ping(struct link *link)
{
    link->pings_owed++;
    pings_send(link);
    link->pings++;
    PEN_ASSERT(link->pings_owed <= link->pings, "no more PINGs are owed than were counted");
    return link->pings;
}

bool link_update(struct link *link)
{
    zmq_msg_t frame;
    struct pen_error error = {0};
    if (hello_update_frame(link->context->hello, &frame, &error) != PEN_OK) {
        log_event(LOG_ERROR, "update_failed", "error=%s", error.text);
        return error.status != PEN_ERR_NO_MEMORY;
    }
    bool flushed = link_flush(link);
    if (flushed)
        zmq_msg_send(&frame, link->socket, ZMQ_DONTWAIT);
    zmq_msg_close(&frame); /* of a frame that was sent, nothing is left */
    return flushed;
}

bool link_control_reply(struct link *link, uint64_t serial, const struct pen_error *outcome)
{
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    reply.serial = serial;
    reply.error = (char *)(uintptr_t)(outcome->status == PEN_OK ? "" : outcome->text);
    env.status = (uint8_t)outcome->status;
    env.meta_bytes = (uint32_t)penstock__control_reply__get_packed_size(&reply);
    return send_frame(link, &env, &reply.base);
}

void link_heartbeat(struct link *link, const Penstock__Heartbeat *beat, uint64_t now_us)
{
    struct envelope env = envelope_make(FRAME_HEARTBEAT);
    env.meta_bytes = (uint32_t)penstock__heartbeat__get_packed_size(beat);
    send_frame(link, &env, &beat->base);
    link->beat_us = now_us;
}

/* ---- time -------------------------------------------------------------------------------------------------------------------------- */

static void complain(struct link *link, const char *evt, uint64_t silent_us, uint64_t now_us)
{
    if (link->complained_us != 0 && now_us - link->complained_us < COMPLAIN_US)
        return;
    link->complained_us = now_us;
    notify_send("STATUS=no answer from the broker %s", link->endpoint);
    if (link->broker_uuid == 0 && *link->context->options->key)
        log_event(LOG_WARN, evt, "broker=%s silent_us=%" PRIu64 " hint=%s", link->endpoint, silent_us,
                  "a broker does not answer a key that is not on its list");
    else
        log_event(LOG_WARN, evt, "broker=%s silent_us=%" PRIu64 " held_jobs=%zu", link->endpoint, silent_us,
                  link->in_flight.jobs);
}

static uint64_t silence_due_us(const struct link *link)
{
    if (link->parked_until_us != 0)
        return link->parked_until_us;
    return link->state == LINK_SERVING ? link->received_us + link->liveness_us : link->hello_us + hello_wait_us(link);
}

void link_give_back(struct link *link)
{
    if (!link->gives_back)
        log_event(LOG_WARN, "jobs_given_back", "broker=%s error=%s", link->endpoint,
                  "no memory to take or answer a job: the connection is made anew, and the broker runs it elsewhere");
    link->gives_back = true;
}

static const char *silent_event(const struct link *link)
{
    return link->denied_us != 0 ? "denied" : link->state == LINK_SERVING ? "broker_silent" : "broker_unreachable";
}

/* A broker does not even answer a key that is not on its list, so time is counted here, not answers. */
static bool denied_too_long(const struct link *link, uint64_t now_us)
{
    return link->denied_us != 0 && link->state == LINK_HELLO &&
           now_us - link->denied_us >= (uint64_t)link->context->options->denied_wait_us;
}

void link_check(struct link *link, uint64_t now_us)
{
    if (denied_too_long(link, now_us)) {
        link->denied_us = 0;
        refused(link, PEN_ERR_DENIED, "denied for as long as --denied-wait allows");
    }
    bool silent = now_us >= silence_due_us(link) || transfer_stalled(link, now_us);
    pings_send(link);
    transfer_again(link, now_us);
    if (link->state == LINK_REFUSED || (!silent && !link->gives_back && now_us < bulk_way_due_us(&link->transfers.way)))
        return;
    if (silent && link->parked_until_us == 0)
        complain(link, silent_event(link), now_us - link->received_us, now_us);
    link->unanswered += silent && link->state == LINK_HELLO && link->parked_until_us == 0;
    link->parked_until_us = 0;
    link_reconnect(link, now_us);
    PEN_ASSERT(!link->gives_back && (link->state == LINK_HELLO || link->state == LINK_CLOSED),
               "a connection that is made anew has said hello, or is closed");
}

/* Three quarters of the interval, so that "at least every heartbeat_us" also holds under load. */
uint64_t link_beat_due_us(const struct link *link)
{
    return link->state == LINK_SERVING ? link->beat_us + link->heartbeat_us - link->heartbeat_us / 4 : DEADLINE_NONE;
}

uint64_t link_next_us(const struct link *link)
{
    uint64_t silence_us = silence_due_us(link), beat_us = link_beat_due_us(link);
    uint64_t next_us = silence_us < beat_us ? silence_us : beat_us;
    return transfer_again_us(link) < next_us ? transfer_again_us(link) : next_us;
}
