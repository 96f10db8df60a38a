#include "drive.h"

#include "assertion.h"
#include "connection.h"
#include "deadline.h"
#include "finish.h"
#include "result.h"
#include "session.h"
#include "timers.h"
#include "urgency.h"
#include "waiters.h"

#define TURN_MESSAGES 64u /* handled before the timers are looked at again */

static void nudge(struct pen_client *c)
{
    if (!atomic_exchange(&c->nudged, true)) {
        link_wake(&c->link);
    }
}

void drive_changed(struct pen_client *c)
{
    waiters_signal(c);
    if (c->driving) {
        nudge(c);
    }
}

/* The socket changes hands under the lock: to who drives, and back to whoever holds the lock. */
static void socket_take(struct pen_client *c)
{
    PEN_ASSERT(!c->driving, "one thread at a time owns the socket");
    c->driving = true;
}

static void socket_give(struct pen_client *c)
{
    PEN_ASSERT(c->driving, "the socket is given back by who took it");
    c->driving = false;
    waiters_pass_on(c);
}

/* Without the lock, owning the socket. Waits for the first message, awake while that pays. As link_receive; *ret_lost: the connection is gone. */
static int wait_message(struct pen_client *c, struct incoming *in, struct pen_error *error, uint64_t until_us,
                        bool may_spin, bool *ret_lost)
{
    uint64_t now = clock_now_us();
    int got = link_receive(&c->link, in, error);
    while (got == 0 && may_spin && now < until_us && !atomic_load_explicit(&c->nudged, memory_order_relaxed) &&
           spin_on(&c->spin, now)) {
        urgency_make_way();
        got = link_receive(&c->link, in, error);
        now = clock_now_us();
    }
    if (got == 0 && !atomic_load(&c->nudged)) {
        int events = link_wait(&c->link, until_us > now ? until_us - now : 0);
        *ret_lost = (events & LINK_LOST) != 0;
        got = events & LINK_READABLE ? link_receive(&c->link, in, error) : 0;
    }
    if (got != 0) {
        spin_found(&c->spin);
    }
    return got;
}

/* One message: decoded without the lock, applied with it. */
static void handle_result(struct pen_client *c, struct incoming *in)
{
    struct pen_result *result = result_from(in);
    uint64_t now = clock_now_us();
    pthread_mutex_lock(&c->lock);
    session_result(c, in, result, now);
    waiters_signal(c);
    pthread_mutex_unlock(&c->lock);
}

/* Of a large payload: its announcement, or a part; the last part makes the result. */
static void handle_part(struct pen_client *c, struct incoming *in)
{
    struct incoming whole;
    uint64_t now = clock_now_us();
    pthread_mutex_lock(&c->lock);
    bool complete = session_part(c, in, now, &whole);
    waiters_signal(c);
    pthread_mutex_unlock(&c->lock);
    if (complete) {
        handle_result(c, &whole);
        incoming_fini(&whole);
    }
}

static void handle_message(struct pen_client *c, struct incoming *in)
{
    uint64_t now = clock_now_us();
    pthread_mutex_lock(&c->lock);
    session_message(c, in, now);
    waiters_signal(c);
    pthread_mutex_unlock(&c->lock);
}

static void handle_garbage(struct pen_client *c, const struct pen_error *error)
{
    pthread_mutex_lock(&c->lock);
    session_garbage(c, error);
    waiters_signal(c);
    pthread_mutex_unlock(&c->lock);
}

/* got: as of link_receive(), not 0. */
static void handle(struct pen_client *c, int got, struct incoming *in, const struct pen_error *error)
{
    if (got < 0) {
        handle_garbage(c, error);
        return;
    }
    bool is_result = in->env.type == FRAME_RESULT;
    if (in->env.type == FRAME_CHUNK || (is_result && in->env.transfer)) {
        handle_part(c, in);
    } else if (is_result) {
        handle_result(c, in);
    } else {
        handle_message(c, in);
    }
    incoming_fini(in);
}

/* *flag is ours: only we, or somebody who then wakes us, set it. Read it under the lock all the same. */
static bool flag_read(struct pen_client *c, const bool *flag)
{
    pthread_mutex_lock(&c->lock);
    bool set = *flag;
    pthread_mutex_unlock(&c->lock);
    return set;
}

/*
 * Without the lock, owning the socket: sleeps until until_us at most, and handles what comes. True: the connection is gone. Such a one is read empty before it
 * is closed: last replies of a leaving broker.
 */
static bool messages_handle(struct pen_client *c, const bool *flag, uint64_t until_us, bool may_spin)
{
    struct incoming in;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    bool lost = false;
    int got = wait_message(c, &in, &error, until_us, may_spin, &lost);
    if (lost && got == 0) {
        got = link_receive(&c->link, &in, &error);
    }
    for (unsigned n = 0; got != 0; n++) {
        handle(c, got, &in, &error);
        bool stop = !lost && (n >= TURN_MESSAGES || flag_read(c, flag));
        got = stop ? 0 : link_receive(&c->link, &in, &error);
    }
    return lost;
}

/* Timers and queues, then messages. With the lock and the socket, both kept (the lock not throughout). */
static void turn(struct pen_client *c, const bool *flag, uint64_t until_us)
{
    uint64_t now = clock_now_us();
    PEN_ASSERT(c->driving, "who moves the session owns the socket");
    atomic_store(&c->nudged, false);
    timers_run(c, now);
    session_flush(c, now);
    waiters_signal(c);
    c->counters.busy_waits = c->spin.tried;
    if (*flag) {
        return;
    }
    uint64_t next_us = timers_next_us(c);
    bool may_spin = c->pending.count > 0 && c->session.state == SESSION_READY;
    pthread_mutex_unlock(&c->lock);
    bool lost = messages_handle(c, flag, next_us < until_us ? next_us : until_us, may_spin);
    pthread_mutex_lock(&c->lock);
    if (lost) {
        connection_lost(c, clock_now_us());
    }
}

bool drive_busy(const struct pen_client *c)
{
    return c->pending.count || c->asks || c->session.unacknowledged || c->session.state == SESSION_HELLO;
}

/* When work has begun while the keeper sleeps for long, it must hear of it: nobody else may come by. */
static void keeper_hint(struct pen_client *c)
{
    if (drive_busy(c) && c->keeper_until_us > clock_now_us() + DRIVE_BUSY_US + DRIVE_BUSY_US / 2) {
        c->keeper_until_us = 0;
        pthread_cond_signal(&c->keeper_cond);
    }
}

/* A loop that moves the session itself sleeps on the sockets' descriptors, which told of this message already. While the loop is busy, it is owed one look. */
static void loop_ring(struct pen_client *c)
{
    if (c->loop_busy) {
        c->ring_owed = true;
    } else if (c->loop_drives && link_pending(&c->link)) {
        finish_ring(c);
    }
}

void drive_loop_busy(struct pen_client *c, bool busy)
{
    c->loop_busy = busy;
    if (!busy && c->ring_owed && !c->driving) { /* who drives now looks when it is done */
        c->ring_owed = false;
        loop_ring(c);
    }
}

static void lead(struct pen_client *c, const bool *flag, uint64_t limit_us)
{
    socket_take(c);
    link_watch_pause(&c->link, true); /* we hear it: the loop need not wake, too */
    do {
        turn(c, flag, limit_us);
    } while (!*flag && clock_now_us() < limit_us);
    link_watch_pause(&c->link, false);
    loop_ring(c);
    socket_give(c);
}

void drive_until(struct pen_client *c, const bool *flag, uint64_t limit_us)
{
    while (!*flag && clock_now_us() < limit_us) {
        if (c->driving) {
            waiters_follow(c, flag, limit_us);
        } else {
            lead(c, flag, limit_us);
        }
    }
    if (!c->driving) {
        waiters_pass_on(c); /* we may have been chosen and found our flag set */
    }
    keeper_hint(c);
}

void drive_kick(struct pen_client *c)
{
    if (c->driving) {
        nudge(c);
    } else {
        session_flush(c, clock_now_us());
        waiters_signal(c);
        loop_ring(c);
    }
    keeper_hint(c);
}

void drive_once(struct pen_client *c)
{
    static const bool never = false;
    if (!c->driving) {
        socket_take(c);
        turn(c, &never, 0);
        if (atomic_load(&c->nudged)) { /* another thread has something to send, and leaves */
            session_flush(c, clock_now_us());
        }
        loop_ring(c);
        socket_give(c);
    }
    keeper_hint(c);
}

bool drive_drop_unsent(struct pen_client *c)
{
    uint64_t now = clock_now_us();
    if (c->driving) {
        c->session.drop_wanted = true;
        drive_changed(c);
        return false;
    }
    connection_lost(c, now);
    timers_run(c, now);
    return true;
}
