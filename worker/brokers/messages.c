/* messages.c - the table of messages and what each does. */
#include "messages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control.pb-c.h"
#include "drain.h"
#include "link_sealed.h"
#include "outcomes.h"
#include "signals.h"
#include "slot.h"
#include "tensor_codec.h"

#define RECEIVE_BURST       256u /* messages handled before results get their turn */
#define CHUNK_BURST         4u   /* chunks (they are copied) handled before small messages get their turn again */
#define CONTROL_ARENA_BYTES (64u * 1024u)

static void dropped(struct serve *serve, enum pen_status status, const char *text)
{
    atomic_fetch_add(&serve->stats->messages_dropped, 1);
    log_event(LOG_WARN, "message_dropped", "status=%s error=%s", pen_status_name(status), text);
}

/* Answers every job of a dispatch that the worker does not take. Without memory for the answers, the connection is
   ended, and the broker gets the jobs back. */
static void dispatch_refuse(struct serve *serve, struct link *link, struct dispatch *dispatch, enum pen_status status,
                            const char *text)
{
    struct reply *reply = reply_new(dispatch->jobs_count, dispatch->jobs_count);
    bool whole = reply != NULL;
    for (size_t i = 0; whole && i < dispatch->jobs_count; i++)
        whole = reply_add_error(reply, &dispatch->jobs[i].env, serve->identity, status, text, NULL, 0) == PEN_OK;
    atomic_fetch_add(&serve->stats->jobs_failed, dispatch->jobs_count);
    dispatch_free(dispatch);
    if (whole) {
        link_reply(link, reply);
        return;
    }
    reply_free(reply);
    link_give_back(link);
}

static void answer_one(struct serve *serve, struct link *link, const struct envelope *env, enum pen_status status,
                       const char *text, uint64_t worker_us)
{
    struct reply *reply = reply_new(1, 1);
    if (reply && reply_add_error(reply, env, serve->identity, status, text, NULL, worker_us) == PEN_OK) {
        link_reply(link, reply);
        return;
    }
    reply_free(reply);
    link_give_back(link);
}

/* A malformed SUBMIT is still answered when the id of its first job could be read. */
static void submit_refuse(struct serve *serve, struct link *link, const struct envelope *env, enum pen_status status,
                          const char *text)
{
    dropped(serve, status, text);
    if (env->job.client != 0)
        answer_one(serve, link, env, status, text, 0);
}

static void on_submit(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct pen_error error = {0};
    struct dispatch *dispatch = NULL;
    enum pen_status status = inbox_dispatch(serve->inbox, message, now_us, &dispatch, &error);
    if (status == PEN_ERR_NO_MEMORY) {
        link_give_back(link); /* the dispatch may have many jobs, and none of them may hang */
        return;
    }
    if (status != PEN_OK) {
        submit_refuse(serve, link, &message->env, status, error.text);
        return;
    }
    dispatch->link = link;
    status = link_sealed_take(link, dispatch, (uint64_t)serve->options->frame_limit, &error);
    bool announced = transfer_announced(dispatch);
    if (status == PEN_OK && announced)
        status = transfer_measure(dispatch, (uint64_t)serve->options->frame_limit, &error);
    if (status == PEN_OK)
        status = in_flight_add(&link->in_flight, dispatch, &error);
    if (status == PEN_OK && announced) {
        status = transfer_ask(link, dispatch, now_us, &error);
        if (status == PEN_OK)
            return;
        in_flight_remove(&link->in_flight, dispatch);
    }
    if (status != PEN_OK) {
        log_event(LOG_WARN, "dispatch_refused", "jobs=%zu bytes=%zu error=%s", dispatch->jobs_count, dispatch->bytes,
                  error.text);
        dispatch_refuse(serve, link, dispatch, status, error.text);
        return;
    }
    exclusive_push(&serve->exclusive, serve->handoff, dispatch);
}

/* Answers a job that has not started. If its dispatch waited for nothing else, the dispatch goes on: a slot skips
   answered jobs. */
static void job_end(struct serve *serve, struct link *link, struct dispatch *dispatch, struct job *job,
                    enum pen_status status, const char *text, uint64_t now_us)
{
    answer_one(serve, link, &job->env, status, text, now_us - dispatch->received_us);
    dispatch = transfer_cancel(link, job);
    if (dispatch)
        exclusive_push(&serve->exclusive, serve->handoff, dispatch);
}

static void on_cancel(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct dispatch *dispatch = NULL;
    struct job *job = in_flight_find(&link->in_flight, message->env.job, &dispatch);
    int expected = JOB_WAITING;
    if (message->env.sequence_id != 0) /* the sequence is over, too */
        states_end(serve->states, message->env.job.client, message->env.sequence_id, message->env.job.sequence);
    if (!job)
        return; /* answered already, or not ours */
    if (!atomic_compare_exchange_strong(&job->state, &expected, JOB_ANSWERED)) {
        for (size_t i = 0; i < serve->slots_count; i++)
            slot_cancel(serve->slots[i], job);
        return;
    }
    atomic_fetch_add(&serve->stats->jobs_cancelled, 1);
    job_end(serve, link, dispatch, job, PEN_ERR_CANCELLED, "the job was cancelled before it started", now_us);
}

static void on_chunk(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct dispatch *complete = NULL;
    if (transfer_chunk(link, message, now_us, &complete) != PEN_OK) {
        dropped(serve, PEN_ERR_CORRUPT, "a chunk that is not the next one, or more than was granted");
        link_reconnect(link, now_us);
    } else if (complete) {
        exclusive_push(&serve->exclusive, serve->handoff, complete);
    }
}

static void on_credit(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)serve;
    transfer_credit(link, &message->env, now_us);
}

static void on_welcome(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    bool before = link->state == LINK_SERVING;
    link_welcome(link, &message->env, message->meta, now_us);
    if (!before && link->state == LINK_SERVING)
        brokers_welcomed(serve->brokers, link, now_us);
    if (serve->draining && !before && link->state == LINK_SERVING)
        drain_say(link); /* the new connection's broker does not know about the drain yet */
}

static void on_ping(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)serve;
    (void)message;
    (void)now_us;
    link_send(link, FRAME_PONG);
}

static void on_pong(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)serve;
    (void)message;
    (void)now_us;
    link->pongs++;
}

static void on_resume(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)serve;
    (void)message;
    link_resume(link, now_us);
}

static void on_drain(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)link;
    (void)message;
    drain_begin(serve, now_us, "broker");
}

/* ORDER_WARM + 1 when no order has that name. */
static enum order_kind order_kind(const char *verb)
{
    enum order_kind kind = ORDER_UNLOAD;
    while (kind <= ORDER_WARM && strcmp(verb, order_name(kind)) != 0)
        kind++;
    return kind;
}

/* Reads such an order for NAME or NAME:VERSION; the watch's thread carries it out. */
static enum pen_status read_order(const Penstock__ControlRequest *request, struct order *ret_order,
                                  struct pen_error *reterr)
{
    const char *colon = strrchr(request->argument, ':');
    size_t length = colon ? (size_t)(colon - request->argument) : strlen(request->argument);
    char *end = NULL;
    ret_order->serial = request->serial;
    ret_order->kind = order_kind(request->verb);
    ret_order->version = colon ? strtoull(colon + 1, &end, 10) : 0;
    if (ret_order->kind > ORDER_WARM)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a worker does not know the order '%.32s'", request->verb);
    if (length == 0 || length >= sizeof ret_order->name || request->argument[0] == '.' ||
        memchr(request->argument, '/', length) || (colon && (*end || ret_order->version == 0)))
        return pen_error_set(reterr, PEN_ERR_INVALID, "'%.128s' is not of the form NAME or NAME:VERSION",
                             request->argument);
    memcpy(ret_order->name, request->argument, length);
    return PEN_OK;
}

static void drop_meta(struct serve *serve, const struct meta_arena *arena, const char *malformed)
{
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = meta_refusal(arena, malformed, &error);
    dropped(serve, status, error.text);
}

static void on_control(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct meta_arena arena;
    struct order order = {.link = (size_t)(link - serve->brokers->links)};
    (void)now_us;
    outcome_owe(link, &order);
    meta_arena_init(&arena, CONTROL_ARENA_BYTES);
    const Penstock__ControlRequest *request =
        meta_unpack(&arena, &penstock__control_request__descriptor, message->meta, message->env.meta_bytes);
    if (!request && arena.starved) {
        link_give_back(link); /* the end of the connection tells the client that gave the order */
    } else if (!request) {
        drop_meta(serve, &arena, "an order's meta is no ControlRequest");
    } else if (read_order(request, &order, &order.outcome) != PEN_OK) {
        outcome_tell(serve->orders, link, &order);
    } else if (serve->draining || !orders_push(serve->orders, &order)) {
        pen_error_set(&order.outcome, PEN_ERR_BUSY, "the worker is draining, or has %u orders to carry out",
                      ORDERS_MAX);
        outcome_tell(serve->orders, link, &order);
    } else {
        watch_wake(serve->update.watch);
    }
    meta_arena_fini(&arena);
}

/* A broker's heartbeat is a sign of life; it may bring a log level (`penstock log-level`). */
static void on_life(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct meta_arena arena;
    enum log_level level;
    (void)link;
    (void)now_us;
    if (message->env.meta_bytes == 0)
        return;
    meta_arena_init(&arena, 65536);
    const Penstock__Heartbeat *beat =
        meta_unpack(&arena, &penstock__heartbeat__descriptor, message->meta, message->env.meta_bytes);
    if (!beat)
        drop_meta(serve, &arena, "a heartbeat's meta is no Heartbeat (proto/worker.proto)");
    else if (*beat->log_level && log_level_parse(beat->log_level, &level) == 0)
        log_level_order(level, "broker");
    meta_arena_fini(&arena);
}

/* Chunks that come after the deadline are useless, so their memory is freed. */
static void expire_at(struct serve *serve, struct link *link, uint64_t now_us)
{
    struct dispatch *dispatch;
    struct job *job;
    while ((job = transfer_late(link, now_us, &dispatch))) {
        atomic_store(&job->state, JOB_ANSWERED); /* no slot knows it yet */
        atomic_fetch_add(&serve->stats->jobs_expired, 1);
        job_end(serve, link, dispatch, job, PEN_ERR_DEADLINE, "the deadline passed before all of the payload had come",
                now_us);
    }
}

void messages_expire(struct serve *serve, uint64_t now_us)
{
    for (size_t i = 0; i < serve->brokers->count; i++)
        expire_at(serve, &serve->brokers->links[i], now_us);
}

typedef void message_handler(struct serve *serve, struct link *link, struct message *message, uint64_t now_us);
static message_handler *const handlers[FRAME_TYPE_COUNT] = {
    [FRAME_SUBMIT] = on_submit,   [FRAME_CANCEL] = on_cancel, [FRAME_WELCOME] = on_welcome, [FRAME_PING] = on_ping,
    [FRAME_PONG] = on_pong,       [FRAME_RESUME] = on_resume, [FRAME_DRAIN] = on_drain,     [FRAME_HEARTBEAT] = on_life,
    [FRAME_CONTROL] = on_control, [FRAME_CHUNK] = on_chunk,   [FRAME_CREDIT] = on_credit,
};

static void message_handle(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    message_handler *handler = message->env.type < FRAME_TYPE_COUNT ? handlers[message->env.type] : NULL;
    if (handler)
        handler(serve, link, message, now_us);
    else
        dropped(serve, PEN_ERR_INVALID, "a message of a type that no broker sends to a worker");
}

/* True when there was anything. `socket`: one of the link's two, which a message may replace. */
static bool receive_from(struct serve *serve, struct link *link, void *const *socket, unsigned burst, uint64_t now_us)
{
    unsigned count = 0;
    uint64_t sockets = link->sockets;
    for (; (count < burst || inbox_holds(serve->inbox)) && *socket; count++) {
        struct message message = {0};
        struct pen_error error = {0};
        enum pen_status status = inbox_receive(serve->inbox, *socket, &message, &error);
        if (status == PEN_ERR_UNAVAILABLE)
            break;
        link->received_us = now_us;
        if (status == PEN_ERR_VERSION)
            link_version(link, error.text);
        if (status == PEN_OK)
            message_handle(serve, link, &message, now_us);
        else
            dropped(serve, status, error.text);
        if (status == PEN_ERR_NO_MEMORY)
            link_give_back(link); /* there may have been jobs among what is lost */
        if (link->sockets != sockets)
            break;
    }
    inbox_drop(serve->inbox); /* what is left, if anything, is of a connection that has ended */
    return count > 0;
}

bool messages_receive(struct serve *serve, uint64_t now_us)
{
    bool any = false;
    for (size_t i = 0; i < serve->brokers->count; i++) {
        struct link *link = &serve->brokers->links[i];
        any |= receive_from(serve, link, &link->socket, RECEIVE_BURST, now_us);
        any |= receive_from(serve, link, &link->transfers.socket, CHUNK_BURST, now_us);
    }
    return any;
}
