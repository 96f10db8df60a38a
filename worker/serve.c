/* serve.c - what each message does, and the order in which the loop looks at things. */
#include "serve.h"

#include "control.pb-c.h"
#include "deadline.h"
#include "large_block.h"
#include "notify.h"
#include "signals.h"
#include "tensor_codec.h"
#include "urgency.h"
#include "watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_IDLE_US      2000000u /* memory of large frames that nobody has used for so long goes back */
#define RECEIVE_BURST       256u     /* messages before results get their turn */
#define CHUNK_BURST         4u       /* chunks, which are copied, before small messages get theirs again */
#define BARRIER_WAIT_US     1000000u /* a broker that does not answer PING */
#define WATCHDOG_STEP_US    250000u
#define CONTROL_ARENA_BYTES (64u * 1024u)
#define POLL_MS_MAX         1000 /* vitals.h: a longer silence counts as wedged */

static void dropped(struct serve *serve, enum pen_status status, const char *text)
{
    atomic_fetch_add(&serve->stats->messages_dropped, 1);
    log_event(LOG_WARN, "message_dropped", "status=%s error=%s", pen_status_name(status), text);
}

static void level_set(enum log_level level, const char *by)
{
    log_level_set(level);
    log_event(LOG_INFO, "log_level", "level=%s by=%s", log_level_name(level), by);
}

/* ---- messages ---------------------------------------------------------------------------------------------------------------------- */

/* Answers every job of a dispatch that is not taken. */
static void dispatch_refuse(struct serve *serve, struct link *link, struct dispatch *dispatch, enum pen_status status,
                            const char *text)
{
    struct reply *reply = reply_new(dispatch->jobs_count, dispatch->jobs_count);
    for (size_t i = 0; reply && i < dispatch->jobs_count; i++)
        reply_add_error(reply, &dispatch->jobs[i].env, serve->identity, status, text, 0);
    atomic_fetch_add(&serve->stats->jobs_failed, dispatch->jobs_count);
    dispatch_free(dispatch);
    if (reply)
        link_reply(link, reply);
}

/* A SUBMIT that makes no sense as a whole is still answered when its first job's name could be read. */
static void submit_refuse(struct serve *serve, struct link *link, const struct envelope *env, enum pen_status status,
                          const char *text)
{
    struct reply *reply = env->job.client != 0 ? reply_new(1, 1) : NULL;
    dropped(serve, status, text);
    if (!reply)
        return;
    if (reply_add_error(reply, env, serve->identity, status, text, 0) == PEN_OK)
        link_reply(link, reply);
    else
        reply_free(reply);
}

static void on_submit(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct pen_error error = {0};
    struct dispatch *dispatch = NULL;
    enum pen_status status = inbox_dispatch(serve->inbox, message, now_us, &dispatch, &error);
    if (status != PEN_OK) {
        submit_refuse(serve, link, &message->env, status, error.text);
        return;
    }
    dispatch->link = link;
    bool announced = transfer_announced(dispatch);
    if (announced)
        status = transfer_measure(dispatch, (uint64_t)serve->options->frame_limit, &error);
    if (status == PEN_OK)
        status = held_add(&link->held, dispatch, &error);
    if (status == PEN_OK && announced) {
        status = transfer_ask(link, dispatch, now_us, &error);
        if (status == PEN_OK)
            return;
        held_remove(&link->held, dispatch);
    }
    if (status != PEN_OK) {
        log_event(LOG_WARN, "dispatch_refused", "jobs=%zu bytes=%zu error=%s", dispatch->jobs_count, dispatch->bytes,
                  error.text);
        dispatch_refuse(serve, link, dispatch, status, error.text);
        return;
    }
    alone_push(&serve->alone, serve->handoff, dispatch);
}

/* A job that has not started gets its answer here. Its dispatch goes on when that was all that it waited for: a slot passes over answered jobs. */
static void job_end(struct serve *serve, struct link *link, struct dispatch *dispatch, struct job *job,
                    enum pen_status status, const char *text, uint64_t now_us)
{
    struct reply *reply = reply_new(1, 1);
    if (reply) {
        reply_add_error(reply, &job->env, serve->identity, status, text, now_us - dispatch->received_us);
        link_reply(link, reply);
    }
    dispatch = transfer_cancel(link, job);
    if (dispatch)
        alone_push(&serve->alone, serve->handoff, dispatch);
}

/* Chunks that come after the deadline are of no use: their memory is better used by others. */
static void transfers_expire(struct serve *serve, struct link *link, uint64_t now_us)
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

static void on_cancel(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct dispatch *dispatch = NULL;
    struct job *job = held_find(&link->held, message->env.job, &dispatch);
    int expected = JOB_WAITING;
    if (message->env.sequence_id != 0) /* the sequence is over, too */
        states_end(serve->states, message->env.job.client, message->env.sequence_id);
    if (!job)
        return; /* answered already, or never ours */
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
    struct pen_error error = {0};
    struct dispatch *complete = NULL;
    if (transfer_chunk(link, message, now_us, &complete) != PEN_OK) {
        dropped(serve, PEN_ERR_CORRUPT, "a chunk that is not the next one, or more than was granted");
        if (link_connect(link, now_us, &error) != PEN_OK)
            log_event(LOG_ERROR, "connect_failed", "error=%s", error.text);
    } else if (complete) {
        alone_push(&serve->alone, serve->handoff, complete);
    }
}

static void on_credit(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)serve;
    (void)now_us;
    transfer_credit(link, &message->env);
}

/* The PONG comes behind all that was sent before the DRAIN was read. */
static void drain_say(struct link *link)
{
    link_send(link, FRAME_DRAIN);
    link->drain_ping = link_ping(link);
}

static void on_welcome(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    bool before = link->state == LINK_SERVING;
    link_welcome(link, &message->env, message->meta, now_us);
    if (!before && link->state == LINK_SERVING)
        brokers_welcomed(serve->brokers, link, now_us);
    if (serve->draining && !before && link->state == LINK_SERVING)
        drain_say(link); /* a new connection does not know yet */
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

static void drain_begin(struct serve *serve, uint64_t now_us, const char *why)
{
    if (serve->draining)
        return;
    size_t jobs = brokers_held_jobs(serve->brokers);
    log_event(LOG_INFO, "drain", "reason=%s held_jobs=%zu", why, jobs);
    serve->draining = true;
    serve->drain_us = now_us;
    notify_send("STOPPING=1\nSTATUS=draining: %zu jobs are still held", jobs);
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (serve->brokers->links[i].state == LINK_SERVING)
            drain_say(&serve->brokers->links[i]);
}

static void on_drain(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    (void)link;
    (void)message;
    drain_begin(serve, now_us, "broker");
}

/* ORDER_WARM + 1 where there is none of that name. */
static enum order_kind order_kind(const char *verb)
{
    enum order_kind kind = ORDER_UNLOAD;
    while (kind <= ORDER_WARM && strcmp(verb, order_name(kind)) != 0)
        kind++;
    return kind;
}

/* One of those orders for NAME or NAME:VERSION; carried out by the watch's thread. */
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

static void on_control(struct serve *serve, struct link *link, struct message *message, uint64_t now_us)
{
    struct meta_arena arena;
    struct order order = {.link = (size_t)(link - serve->brokers->links)};
    (void)now_us;
    meta_arena_init(&arena, CONTROL_ARENA_BYTES);
    const Penstock__ControlRequest *request =
        meta_unpack(&arena, &penstock__control_request__descriptor, message->meta, message->env.meta_bytes);
    if (!request) {
        dropped(serve, PEN_ERR_CORRUPT, "an order's meta is no ControlRequest");
    } else if (read_order(request, &order, &order.outcome) != PEN_OK) {
        link_control_reply(link, order.serial, &order.outcome);
    } else if (serve->draining || !orders_push(serve->orders, &order)) {
        pen_error_set(&order.outcome, PEN_ERR_BUSY, "the worker is draining, or has %u orders to carry out",
                      ORDERS_MAX);
        link_control_reply(link, order.serial, &order.outcome);
    } else {
        watch_wake(serve->update.watch);
    }
    meta_arena_fini(&arena);
}

/* Behind the update that an order has led to: it was posted before its outcome. */
static void tell_outcomes(struct serve *serve, uint64_t now_us)
{
    struct order order;
    while (orders_answer(serve->orders, &order)) {
        update_tick(&serve->update, serve->brokers, now_us);
        link_control_reply(&serve->brokers->links[order.link], order.serial, &order.outcome);
    }
}

/* A broker's heartbeat is a sign of life; it may bring a level for the log (`penstock log-level`). */
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
        dropped(serve, PEN_ERR_CORRUPT, "a heartbeat's meta is no Heartbeat (proto/worker.proto)");
    else if (*beat->log_level && log_level_parse(beat->log_level, &level) == 0)
        level_set(level, "broker");
    meta_arena_fini(&arena);
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
    for (; count < burst && *socket; count++) {
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
    }
    return count > 0;
}

static bool receive_some(struct serve *serve, uint64_t now_us)
{
    bool any = false;
    for (size_t i = 0; i < serve->brokers->count; i++) {
        struct link *link = &serve->brokers->links[i];
        any |= receive_from(serve, link, &link->socket, RECEIVE_BURST, now_us);
        any |= receive_from(serve, link, &link->transfers.socket, CHUNK_BURST, now_us);
    }
    return any;
}

/* ---- results ----------------------------------------------------------------------------------------------------------------------- */

static bool send_some(struct serve *serve)
{
    struct reply *reply = outbox_take_all(serve->outbox);
    bool any = reply != NULL;
    for (struct reply *next; reply; reply = next) {
        struct dispatch *finished = reply->finished;
        struct link *link = reply->link;
        next = reply->next;
        link_reply(link, reply);
        if (finished) {
            alone_finished(&serve->alone, finished);
            held_remove(&link->held, finished);
            dispatch_free(finished);
        }
    }
    return any;
}

/* ---- time -------------------------------------------------------------------------------------------------------------------------- */

static void beat(struct serve *serve, struct link *link, uint64_t now_us)
{
    Penstock__Heartbeat message;
    vitals_fill(serve->vitals, now_us, &message);
    alone_fill(&serve->alone, link, &message);
    brokers_beat(serve->brokers, link, &message, now_us);
}

static void alone_turn(struct serve *serve, uint64_t now_us)
{
    if (!alone_step(&serve->alone, serve->handoff, serve->brokers, now_us))
        return;
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (serve->brokers->links[i].state == LINK_SERVING)
            beat(serve, &serve->brokers->links[i], now_us);
    alone_told(&serve->alone, serve->brokers, now_us);
}

bool serve_turn(struct serve *serve, uint64_t now_us)
{
    bool any = send_some(serve);
    any |= receive_some(serve, now_us);
    alone_turn(serve, now_us);
    return any;
}

/* Ends the process: a slot that hangs cannot be joined, and its neighbours' jobs are better run elsewhere. */
static void watch(struct serve *serve, uint64_t now_us)
{
    uint64_t limit_us = (uint64_t)serve->options->watchdog_us;
    if (brokers_held_dispatches(serve->brokers) == 0 || limit_us == 0)
        return;
    if (watchdog_check(serve->slots, serve->slots_count, limit_us, now_us) > 0 ||
        watchdog_idle(&serve->watchdog, serve->slots, serve->slots_count, serve->handoff, limit_us, now_us))
        _exit(WORKER_EXIT_WEDGED);
}

/*
 * Nothing is held for that broker, nothing waits to be sent to it, and nothing can be on its way from it. A broker that cannot be reached gets a moment to come
 * back; then results are left, for whoever asked for them has to ask again in any case.
 */
static bool link_drained(const struct serve *serve, const struct link *link, uint64_t now_us)
{
    bool gone = link->state != LINK_SERVING && now_us - serve->drain_us > BARRIER_WAIT_US;
    if (link->held.dispatches > 0 || (!gone && (link->unsent || link->transfers.departures)))
        return false;
    bool read = link->drain_ping != 0 && link->pongs >= link->drain_ping;
    return read || link->state != LINK_SERVING || now_us - serve->drain_us > BARRIER_WAIT_US;
}

static bool all_drained(const struct serve *serve, uint64_t now_us)
{
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (!link_drained(serve, &serve->brokers->links[i], now_us))
            return false;
    return true;
}

static void goodbye(const struct serve *serve)
{
    for (size_t i = 0; i < serve->brokers->count; i++) {
        struct link *link = &serve->brokers->links[i];
        if (link->unsent)
            log_event(LOG_WARN, "results_left", "broker=%s bytes=%zu reason=\"it cannot be reached\"", link->endpoint,
                      link->unsent_bytes);
        link_send(link, FRAME_GOODBYE);
    }
}

/* Returns -1 to go on, else the exit code. */
static int drain_check(struct serve *serve, uint64_t now_us)
{
    if (!serve->draining)
        return -1;
    if (all_drained(serve, now_us)) {
        goodbye(serve);
        serve->drained = true;
        const struct stats *stats = serve->stats;
        log_event(LOG_INFO, "drained",
                  "jobs_done=%" PRIu64 " jobs_failed=%" PRIu64 " batches=%" PRIu64 " prepared=%" PRIu64
                  " rows_filled=%" PRIu64,
                  (uint64_t)atomic_load(&stats->jobs_done), (uint64_t)atomic_load(&stats->jobs_failed),
                  (uint64_t)atomic_load(&stats->batches), (uint64_t)atomic_load(&stats->prepared),
                  (uint64_t)atomic_load(&stats->rows_filled));
        return WORKER_EXIT_OK;
    }
    if (now_us - serve->drain_us < (uint64_t)serve->options->drain_timeout_us)
        return -1;
    log_event(LOG_ERROR, "drain_timeout", "held_jobs=%zu error=%s", brokers_held_jobs(serve->brokers),
              "jobs still run after the time for draining: they are left to other workers");
    _exit(WORKER_EXIT_FAILED); /* their slots cannot be joined */
}

/* Does what is due. Returns -1 to go on, else the exit code. */
static int tick(struct serve *serve, uint64_t now_us)
{
    states_sweep(serve->states, now_us);
    vitals_beat(serve->vitals, brokers_serving(serve->brokers), serve->draining, now_us);
    int level_change = signals_level();
    if (level_change)
        level_set(log_level_step(level_change), "signal");
    if (signals_asked())
        drain_begin(serve, now_us, "signal");
    int refused = WORKER_EXIT_REFUSED;
    brokers_check(serve->brokers, now_us);
    if (brokers_refused(serve->brokers, &refused))
        return refused;
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (brokers_beat_due(serve->brokers, &serve->brokers->links[i], now_us))
            beat(serve, &serve->brokers->links[i], now_us);
    for (size_t i = 0; i < serve->brokers->count; i++)
        transfers_expire(serve, &serve->brokers->links[i], now_us);
    watch(serve, now_us);
    if (now_us - serve->blocks_us >= BLOCKS_IDLE_US / 4) {
        serve->blocks_us = now_us;
        large_block_trim(now_us, BLOCKS_IDLE_US);
    }
    if (!serve->draining) {
        update_tick(&serve->update, serve->brokers, now_us);
        tell_outcomes(serve, now_us);
    }
    if (now_us >= serve->alive_us) {
        notify_send("WATCHDOG=1");
        serve->alive_us = now_us + serve->alive_step_us;
    }
    return drain_check(serve, now_us);
}

static long poll_ms(const struct serve *serve, uint64_t now_us)
{
    uint64_t next_us = brokers_next_us(serve->brokers);
    for (size_t i = 0; i < serve->brokers->count; i++) {
        uint64_t late_us = transfer_late_us(&serve->brokers->links[i]);
        next_us = late_us < next_us ? late_us : next_us;
    }
    if (serve->alive_us < next_us)
        next_us = serve->alive_us;
    if (brokers_held_dispatches(serve->brokers) > 0 && next_us > now_us + WATCHDOG_STEP_US)
        next_us = now_us + WATCHDOG_STEP_US;
    if (serve->draining && next_us > now_us + WATCHDOG_STEP_US)
        next_us = now_us + WATCHDOG_STEP_US;
    if (next_us <= now_us)
        return 0;
    uint64_t ms = (next_us - now_us + 999) / 1000;
    return ms > POLL_MS_MAX ? POLL_MS_MAX : (long)ms;
}

static void sleep_for_events(struct serve *serve, uint64_t now_us)
{
    zmq_pollitem_t items[1 + 2 * ENDPOINTS_MAX] = {{.fd = outbox_fd(serve->outbox), .events = ZMQ_POLLIN}};
    int count = 1;
    for (size_t i = 0; i < serve->brokers->count; i++) {
        void *const sockets[] = {serve->brokers->links[i].socket, serve->brokers->links[i].transfers.socket};
        for (size_t k = 0; k < 2; k++)
            if (sockets[k])
                items[count++] = (zmq_pollitem_t){.socket = sockets[k], .events = ZMQ_POLLIN};
    }
    if (!outbox_sleep(serve->outbox))
        return;
    zmq_poll(items, count, poll_ms(serve, now_us)); /* EINTR: the signal has written the eventfd */
    outbox_awake(serve->outbox, (items[0].revents & ZMQ_POLLIN) != 0);
}

/*
 * Results first, then messages until there are none: a receive that finds nothing has taken all of the socket's signals, so that the poll behind
 * it misses nothing. While that pays the loop spins for a moment before it sleeps: judged apart for waits for a slot and for the next job.
 */
int serve_run(struct serve *serve)
{
    struct spin *spin = &serve->spins[0];
    serve->alive_step_us = notify_watchdog_us();
    serve->alive_us = serve->alive_step_us == DEADLINE_NONE ? DEADLINE_NONE : 0;
    for (;;) {
        uint64_t now_us = clock_now_us();
        bool progress = serve_turn(serve, now_us);
        int code = tick(serve, now_us);
        if (code >= 0)
            return code;
        if (progress) {
            spin_found(spin);
            spin = &serve->spins[brokers_held_dispatches(serve->brokers) > 0];
        } else if (spin_on(spin, now_us)) {
            urgency_make_way();
        } else {
            atomic_store(&serve->stats->busy_waits, serve->spins[0].tried + serve->spins[1].tried);
            sleep_for_events(serve, now_us);
        }
    }
}
