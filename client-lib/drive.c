#include "drive.h"

#include <time.h>

#include "deadline.h"
#include "result.h"
#include "session.h"
#include "urgency.h"

#define TURN_MESSAGES     64u    /* handled before the timers are looked at again */
#define KEEPER_BUSY_US    20000u /* its pause while jobs are under way */
#define KEEPER_CONNECT_US 5000u

struct waiter {
    struct waiter *next;
    const bool *flag;
    bool signalled;
    pthread_cond_t cond;
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t limit_us)
{
    if (limit_us == DEADLINE_NONE) {
        pthread_cond_wait(cond, lock);
        return;
    }
    struct timespec at = {.tv_sec = (time_t)(limit_us / 1000000), .tv_nsec = (long)(limit_us % 1000000) * 1000};
    pthread_cond_timedwait(cond, lock, &at);
}

static void waiters_signal(struct pen_client *c)
{
    for (struct waiter *w = c->waiters; w; w = w->next) {
        if (*w->flag && !w->signalled) {
            w->signalled = true;
            pthread_cond_signal(&w->cond);
        }
    }
}

/* The socket is free: the oldest waiter takes it. */
static void pass_on(struct pen_client *c)
{
    for (struct waiter *w = c->waiters; w; w = w->next) {
        if (!*w->flag) {
            pthread_cond_signal(&w->cond);
            return;
        }
    }
}

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
    if (got != 0)
        spin_found(&c->spin);
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
    pthread_mutex_lock(&c->lock);
    c->session.heard_us = clock_now_us();
    bool complete = in->env.type == FRAME_CHUNK && transfer_chunk(c, in, c->session.heard_us, &whole);
    if (in->env.type == FRAME_RESULT) {
        transfer_result(c, in, c->session.heard_us);
    }
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

static void handle(struct pen_client *c, struct incoming *in)
{
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

static void garbage(struct pen_client *c, const struct pen_error *error)
{
    pthread_mutex_lock(&c->lock);
    session_garbage(c, error);
    waiters_signal(c);
    pthread_mutex_unlock(&c->lock);
}

/* Timers and queues, then messages; sleeps until until_us at most. With the lock and the socket, both kept (the lock not throughout). */
static void turn(struct pen_client *c, const bool *flag, uint64_t until_us)
{
    struct incoming in;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    bool lost = false;
    uint64_t now = clock_now_us();
    atomic_store(&c->nudged, false);
    session_tick(c, now);
    session_flush(c, now);
    waiters_signal(c);
    c->counters.busy_waits = c->spin.tried;
    if (*flag) {
        return;
    }
    uint64_t until = earlier(until_us, session_next_us(c));
    bool may_spin = c->pending.count > 0 && c->session.state == SESSION_READY;
    pthread_mutex_unlock(&c->lock);
    int got = wait_message(c, &in, &error, until, may_spin, &lost);
    if (lost && got == 0) {
        got = link_receive(&c->link, &in, &error);
    }
    for (unsigned n = 0; got != 0; n++) {
        if (got > 0) {
            handle(c, &in);
        } else {
            garbage(c, &error);
        }
        /* *flag is ours: only we, or somebody who then wakes us, set it. Read it under the lock all the same. */
        pthread_mutex_lock(&c->lock);
        bool stop =
            !lost &&
            (*flag ||
             n >=
                 TURN_MESSAGES); /* a lost connection is read empty before it is closed: last replies of a leaving broker */
        pthread_mutex_unlock(&c->lock);
        got = stop ? 0 : link_receive(&c->link, &in, &error);
    }
    pthread_mutex_lock(&c->lock);
    if (lost) {
        session_lost(c, clock_now_us());
    }
}

static bool busy(const struct pen_client *c)
{
    return c->pending.count || c->asks || c->session.unacknowledged || c->session.state == SESSION_HELLO;
}

/* When work has begun while the keeper sleeps for long, it must hear of it: nobody else may come by. */
static void keeper_hint(struct pen_client *c)
{
    if (busy(c) && c->keeper_until_us > clock_now_us() + KEEPER_BUSY_US + KEEPER_BUSY_US / 2) {
        c->keeper_until_us = 0;
        pthread_cond_signal(&c->keeper_cond);
    }
}

static void follow(struct pen_client *c, const bool *flag, uint64_t limit_us)
{
    struct waiter self = {.flag = flag}, **at = &c->waiters;
    cond_init(&self.cond);
    while (*at) {
        at = &(*at)->next;
    }
    *at = &self;
    while (!*flag && c->driving && clock_now_us() < limit_us) {
        cond_wait_until(&self.cond, &c->lock, limit_us);
    }
    for (at = &c->waiters; *at != &self;) {
        at = &(*at)->next;
    }
    *at = self.next;
    pthread_cond_destroy(&self.cond);
}

static void lead(struct pen_client *c, const bool *flag, uint64_t limit_us)
{
    c->driving = true;
    do {
        turn(c, flag, limit_us);
    } while (!*flag && clock_now_us() < limit_us);
    c->driving = false;
    pass_on(c);
}

void drive_until(struct pen_client *c, const bool *flag, uint64_t limit_us)
{
    while (!*flag && clock_now_us() < limit_us) {
        if (c->driving) {
            follow(c, flag, limit_us);
        } else {
            lead(c, flag, limit_us);
        }
    }
    if (!c->driving) {
        pass_on(c); /* we may have been chosen and found our flag set */
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
    }
    keeper_hint(c);
}

void drive_once(struct pen_client *c)
{
    static const bool never = false;
    if (!c->driving) {
        c->driving = true;
        turn(c, &never, 0);
        c->driving = false;
        pass_on(c);
    }
    keeper_hint(c);
}

static void keeper_turn(struct pen_client *c)
{
    drive_once(c);
    uint64_t now = clock_now_us();
    uint64_t pause = c->session.state == SESSION_HELLO && c->pending.count ? KEEPER_CONNECT_US : KEEPER_BUSY_US;
    uint64_t next = session_next_us(c);
    c->keeper_until_us = busy(c) ? now + pause : next;
    if (!busy(c) && next <= now) {
        c->keeper_until_us = now + pause;
    }
    if (!c->closing) {
        cond_wait_until(&c->keeper_cond, &c->lock, c->keeper_until_us);
    }
}

static void *keeper_main(void *arg)
{
    struct pen_client *c = arg;
    urgency_ask(URGENCY_SLICE_US);
    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        if (c->keeper_drives) {
            drive_until(c, &c->closing, DEADLINE_NONE);
        } else {
            keeper_turn(c);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum pen_status drive_start(struct pen_client *c, struct pen_error *reterr)
{
    cond_init(&c->keeper_cond);
    int rc = pthread_create(&c->keeper, NULL, keeper_main, c);
    if (rc != 0) {
        pthread_cond_destroy(&c->keeper_cond);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the client's housekeeping thread (error %d).",
                             rc);
    }
    return PEN_OK;
}

void drive_stop(struct pen_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_signal(&c->keeper_cond);
    drive_changed(c);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->keeper, NULL);
    pthread_cond_destroy(&c->keeper_cond);
}
