/* serve.c - the loop: the order of its work, and the tasks that are due at set times. */
#include "serve.h"

#include "deadline.h"
#include "drain.h"
#include "large_block.h"
#include "link_pack.h"
#include "messages.h"
#include "notify.h"
#include "outcomes.h"
#include "signals.h"
#include "urgency.h"
#include "watchdog.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define BLOCKS_IDLE_US   2000000u /* memory of large frames that was not used for this long goes back */
#define BLOCKS_LOOK_US   500000u  /* how often to look for such memory */
#define WATCHDOG_STEP_US 250000u
#define POLL_MS_MAX      1000 /* vitals.h: a longer silence counts as wedged */

/* ---- results ----------------------------------------------------------------------------------------------------------------------- */

/* A list of dispatches and of parts of dispatches that no slot has any more. */
static void finished_free(struct serve *serve, struct link *link, struct dispatch *finished)
{
    for (struct dispatch *next; finished; finished = next) {
        next = finished->queue_next;
        struct dispatch *whole = dispatch_finish(finished);
        if (!whole)
            continue;
        exclusive_finished(&serve->exclusive, whole);
        in_flight_remove(&link->in_flight, whole);
        dispatch_free(whole);
    }
}

/* What the slots have finished by now leaves together. */
static bool send_some(struct serve *serve)
{
    struct reply *reply = outbox_take_all(serve->outbox);
    bool any = reply != NULL;
    for (size_t i = 0; any && i < serve->brokers->count; i++)
        link_hold(&serve->brokers->links[i]);
    for (struct reply *next; reply; reply = next) {
        struct dispatch *finished = reply->finished;
        struct link *link = reply->link;
        next = reply->next;
        link_reply(link, reply);
        finished_free(serve, link, finished);
    }
    for (size_t i = 0; any && i < serve->brokers->count; i++)
        if (!link_release(&serve->brokers->links[i]))
            link_give_back(&serve->brokers->links[i]);
    return any;
}

/* ---- time -------------------------------------------------------------------------------------------------------------------------- */

static void beat(struct serve *serve, struct link *link, uint64_t now_us)
{
    Penstock__Heartbeat message;
    vitals_fill(serve->vitals, now_us, &message);
    exclusive_fill(&serve->exclusive, link, &message);
    brokers_beat(serve->brokers, link, &message, now_us);
}

static void exclusive_turn(struct serve *serve, uint64_t now_us)
{
    if (!exclusive_step(&serve->exclusive, serve->handoff, serve->brokers, now_us))
        return;
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (serve->brokers->links[i].state == LINK_SERVING)
            beat(serve, &serve->brokers->links[i], now_us);
    exclusive_told(&serve->exclusive, serve->brokers, now_us);
}

bool serve_turn(struct serve *serve, uint64_t now_us)
{
    bool any = send_some(serve);
    exclusive_turn(serve, now_us);
    return messages_receive(serve, now_us) || any; /* last: see sleep_for_events */
}

/* Ends the process: a slot that hangs cannot be joined, and the jobs of the other slots are better run elsewhere. */
static void watch(struct serve *serve, uint64_t now_us)
{
    uint64_t limit_us = (uint64_t)serve->options->watchdog_us;
    if (brokers_in_flight_dispatches(serve->brokers) == 0 || limit_us == 0)
        return;
    if (watchdog_check(serve->slots, serve->slots_count, limit_us, now_us) > 0 ||
        watchdog_idle(&serve->watchdog, serve->slots, serve->slots_count, serve->handoff, limit_us, now_us))
        _exit(WORKER_EXIT_WEDGED);
}

/* Does what is due. Returns -1 to go on, else the exit code. */
static int tick(struct serve *serve, uint64_t now_us)
{
    states_sweep(serve->states, now_us);
    vitals_beat(serve->vitals, brokers_serving(serve->brokers), serve->draining, now_us);
    int level_change = signals_level();
    if (level_change)
        log_level_order(log_level_step(level_change), "signal");
    if (signals_asked())
        drain_begin(serve, now_us, "signal");
    int refused = WORKER_EXIT_REFUSED;
    brokers_check(serve->brokers, now_us);
    if (brokers_refused(serve->brokers, &refused))
        return refused;
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (brokers_beat_due(serve->brokers, &serve->brokers->links[i], now_us))
            beat(serve, &serve->brokers->links[i], now_us);
    messages_expire(serve, now_us);
    watch(serve, now_us);
    if (now_us - serve->blocks_us >= BLOCKS_LOOK_US) {
        serve->blocks_us = now_us;
        large_block_trim(now_us, BLOCKS_IDLE_US);
    }
    if (!serve->draining) {
        update_tick(&serve->update, serve->brokers, now_us);
        outcomes_tell(serve->orders, &serve->update, serve->brokers, now_us);
    }
    if (now_us >= serve->alive_us) {
        notify_send("WATCHDOG=1");
        serve->alive_us = now_us + serve->alive_step_us;
    }
    return drain_check(serve, now_us);
}

static int poll_ms(const struct serve *serve, uint64_t now_us)
{
    uint64_t next_us = brokers_next_us(serve->brokers);
    for (size_t i = 0; i < serve->brokers->count; i++) {
        uint64_t late_us = transfer_late_us(&serve->brokers->links[i]);
        next_us = late_us < next_us ? late_us : next_us;
    }
    if (serve->alive_us < next_us)
        next_us = serve->alive_us;
    if (brokers_in_flight_dispatches(serve->brokers) > 0 && next_us > now_us + WATCHDOG_STEP_US)
        next_us = now_us + WATCHDOG_STEP_US;
    if (serve->draining && next_us > now_us + WATCHDOG_STEP_US)
        next_us = now_us + WATCHDOG_STEP_US;
    if (next_us <= now_us)
        return 0;
    uint64_t ms = (next_us - now_us + 999) / 1000;
    return ms > POLL_MS_MAX ? POLL_MS_MAX : (int)ms;
}

static int descriptor(void *socket)
{
    int fd = -1;
    size_t bytes = sizeof fd;
    if (!socket || zmq_getsockopt(socket, ZMQ_FD, &fd, &bytes) != 0)
        return -1; /* poll passes over it */
    return fd;
}

/*
 * Sleeps on the sockets' descriptors: zmq_poll would look at each socket twice. They report changes, not states, so it
 * must come right after receives that found nothing, and nothing may be sent between the two.
 */
static void sleep_for_events(struct serve *serve, uint64_t now_us)
{
    struct pollfd items[1 + 2 * ENDPOINTS_MAX] = {{.fd = outbox_fd(serve->outbox), .events = POLLIN}};
    nfds_t count = 1;
    for (size_t i = 0; i < serve->brokers->count; i++) {
        const struct link *link = &serve->brokers->links[i];
        items[count++] = (struct pollfd){.fd = descriptor(link->socket), .events = POLLIN};
        items[count++] = (struct pollfd){.fd = descriptor(link->transfers.socket), .events = POLLIN};
    }
    if (!outbox_sleep(serve->outbox))
        return;
    poll(items, count, poll_ms(serve, now_us)); /* EINTR: the signal has written the eventfd */
    outbox_awake(serve->outbox, (items[0].revents & POLLIN) != 0);
}

/*
 * Does what is due, sends results, then handles messages until there are none. A receive that finds nothing has taken
 * all signals of the socket, so the following poll misses nothing. While it pays, the loop spins for a moment before it
 * sleeps; waits for a slot and waits for the next job are judged apart.
 */
int serve_run(struct serve *serve)
{
    struct spin *spin = &serve->spins[0];
    serve->alive_step_us = notify_watchdog_us();
    serve->alive_us = serve->alive_step_us == DEADLINE_NONE ? DEADLINE_NONE : 0;
    for (;;) {
        uint64_t now_us = clock_now_us();
        int code = tick(serve, now_us);
        if (code >= 0)
            return code;
        bool progress = serve_turn(serve, now_us);
        if (progress) {
            spin_found(spin);
            spin = &serve->spins[brokers_in_flight_dispatches(serve->brokers) > 0];
        } else if (spin_on(spin, now_us)) {
            urgency_make_way();
        } else {
            atomic_store(&serve->stats->busy_waits, serve->spins[0].tried + serve->spins[1].tried);
            sleep_for_events(serve, now_us);
        }
    }
}
