/* handoff.c - mutex, condition, and a counter that spinning slots may read without the lock. */
#include "handoff.h"

#include "assertion.h"
#include "deadline.h"
#include "spin.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define COMING_ROWS 64u /* models that share a row wait for each other's jobs, too, but never beyond their time */

struct handoff {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct dispatch *first, *last;
    size_t parts;               /* of the list */
    size_t coming[COMING_ROWS]; /* parts on their way, by broker and model */
    unsigned sleepers;
    bool closed;
    atomic_size_t length, taken;
    struct spin spin; /* only one slot spins at a time */
    atomic_flag spinning;
};

struct handoff *handoff_new(uint64_t spin_us)
{
    struct handoff *handoff = calloc(1, sizeof *handoff);
    if (!handoff)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* as clock_now_us */
    pthread_mutex_init(&handoff->lock, NULL);
    pthread_cond_init(&handoff->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    spin_init(&handoff->spin, spin_us);
    atomic_flag_clear(&handoff->spinning);
    return handoff;
}

void handoff_free(struct handoff *handoff)
{
    if (!handoff)
        return;
    pthread_cond_destroy(&handoff->filled);
    pthread_mutex_destroy(&handoff->lock);
    free(handoff);
}

/* ---- in --------------------------------------------------------------------------------------------------------------------------------- */

/* Of the broker and model of a part. */
static size_t *coming_of(struct handoff *handoff, const struct dispatch *part)
{
    uint64_t hash = part->jobs[0].env.model_hash ^ (uintptr_t)part->link >> 4;
    return &handoff->coming[(hash * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
}
_Static_assert(COMING_ROWS == 64, "six bits of the hash name a row");

void handoff_expect(struct handoff *handoff, const struct dispatch *part)
{
    pthread_mutex_lock(&handoff->lock);
    ++*coming_of(handoff, part);
    pthread_mutex_unlock(&handoff->lock);
}

static void part_came(struct handoff *handoff, const struct dispatch *part)
{
    size_t *coming = coming_of(handoff, part);
    PEN_ASSERT(*coming > 0, "a part that comes was expected");
    --*coming;
    handoff->parts++;
}

/* 1 is the most urgent; 0, the model's default, is settled by the broker before it sends. */
static uint8_t urgency_of(const struct dispatch *dispatch)
{
    return dispatch->jobs[0].env.priority;
}

/* At the end; a part before the parts that are less urgent. Call it with the lock held. */
static void queue_insert(struct handoff *handoff, struct dispatch *dispatch)
{
    struct dispatch **at = handoff->last ? &handoff->last->queue_next : &handoff->first;
    if (dispatch->whole && handoff->parts > 0)
        for (at = &handoff->first; *at && !((*at)->whole && urgency_of(*at) > urgency_of(dispatch));)
            at = &(*at)->queue_next;
    dispatch->queue_next = *at;
    *at = dispatch;
    if (!dispatch->queue_next)
        handoff->last = dispatch;
}

void handoff_push(struct handoff *handoff, struct dispatch *dispatch)
{
    pthread_mutex_lock(&handoff->lock);
    queue_insert(handoff, dispatch);
    if (dispatch->whole)
        part_came(handoff, dispatch);
    atomic_fetch_add_explicit(&handoff->length, 1, memory_order_release);
    PEN_ASSERT(!handoff->last->queue_next && handoff_length(handoff) > 0,
               "the last dispatch of a queue has none behind it");
    bool wake = handoff->sleepers > 0;
    pthread_mutex_unlock(&handoff->lock);
    if (wake)
        pthread_cond_signal(&handoff->filled);
}

/* ---- out -------------------------------------------------------------------------------------------------------------------------------- */

/* Returns early when there is work. */
static void spin_for_work(struct handoff *handoff)
{
    bool found = false;
    if (atomic_flag_test_and_set_explicit(&handoff->spinning, memory_order_acquire))
        return;
    if (spin_worthwhile(&handoff->spin)) {
        uint64_t until_us = clock_now_us() + handoff->spin.limit_us;
        while (!found && clock_now_us() < until_us) {
            found = atomic_load_explicit(&handoff->length, memory_order_acquire) > 0;
            spin_pause();
        }
        spin_result(&handoff->spin, found);
    }
    atomic_flag_clear_explicit(&handoff->spinning, memory_order_release);
}

static bool joins(const struct joining *a, const struct joining *b)
{
    return a->rows > 0 && b->rows > 0 && a->link == b->link && a->model_hash == b->model_hash &&
           digest_equal(a->model, b->model);
}

/* Takes the dispatch at *at out of the list; `before` is the one before it, or NULL. */
static struct dispatch *unlink_at(struct handoff *handoff, struct dispatch **at, struct dispatch *before)
{
    struct dispatch *dispatch = *at;
    PEN_ASSERT(dispatch && handoff_length(handoff) > 0, "what is taken has been counted");
    *at = dispatch->queue_next;
    if (handoff->last == dispatch)
        handoff->last = before;
    handoff->parts -= dispatch->whole != NULL;
    dispatch->queue_next = NULL;
    atomic_fetch_sub_explicit(&handoff->length, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&handoff->taken, 1, memory_order_relaxed);
    PEN_ASSERT((handoff_length(handoff) == 0) == (handoff->first == NULL), "a queue's length is that of its list");
    return dispatch;
}

/* Rows of the parts from `part` on that may run with it. */
static uint64_t rows_there(const struct dispatch *part)
{
    uint64_t rows = 0;
    for (const struct dispatch *d = part; d; d = d->queue_next)
        rows += joins(&part->joining, &d->joining) ? d->joining.rows : 0;
    return rows;
}

static bool ripe(struct handoff *handoff, const struct dispatch *dispatch, uint64_t now_us)
{
    const struct joining *own = &dispatch->joining;
    return own->rows == 0 || now_us >= own->until_us || *coming_of(handoff, dispatch) == 0 ||
           rows_there(dispatch) >= own->rows_most;
}

/* Takes those behind `lead` that run with it, but for those that would pass a more urgent one. */
static void company_take(struct handoff *handoff, struct dispatch *lead)
{
    struct dispatch **end = &lead->queue_next, *before = NULL;
    uint64_t rows = lead->joining.rows;
    uint8_t most_urgent = UINT8_MAX;
    size_t jobs = 1;
    for (struct dispatch **at = &handoff->first; *at && jobs < FRAME_MAX_GROUPS && rows < lead->joining.rows_most;) {
        bool fits = joins(&lead->joining, &(*at)->joining) && rows + (*at)->joining.rows <= lead->joining.rows_most;
        if (fits && urgency_of(*at) <= most_urgent) {
            *end = unlink_at(handoff, at, before);
            rows += (*end)->joining.rows;
            end = &(*end)->queue_next;
            jobs++;
            continue;
        }
        if (urgency_of(*at) < most_urgent)
            most_urgent = urgency_of(*at);
        before = *at;
        at = &before->queue_next;
    }
}

/* Call it with the lock held. The first dispatch whose time has come, with its company; NULL: there is none before *ret_when_us. */
static struct dispatch *first_take(struct handoff *handoff, uint64_t *ret_when_us)
{
    uint64_t now_us = handoff->parts > 0 ? clock_now_us() : 0;
    struct dispatch *before = NULL;
    *ret_when_us = UINT64_MAX;
    for (struct dispatch **at = &handoff->first; *at; before = *at, at = &before->queue_next) {
        if (ripe(handoff, *at, now_us)) {
            struct dispatch *lead = unlink_at(handoff, at, before);
            if (lead->joining.rows > 0 && handoff->parts > 0)
                company_take(handoff, lead);
            return lead;
        }
        if ((*at)->joining.until_us < *ret_when_us)
            *ret_when_us = (*at)->joining.until_us;
    }
    return NULL;
}

/* Until there may be something to take. Call it with the lock held. */
static void sleep_until(struct handoff *handoff, uint64_t when_us)
{
    struct timespec at = {.tv_sec = (time_t)(when_us / 1000000u), .tv_nsec = (long)(when_us % 1000000u) * 1000};
    handoff->sleepers++;
    if (when_us == UINT64_MAX)
        pthread_cond_wait(&handoff->filled, &handoff->lock);
    else
        pthread_cond_timedwait(&handoff->filled, &handoff->lock, &at);
    handoff->sleepers--;
}

struct dispatch *handoff_take(struct handoff *handoff)
{
    struct dispatch *dispatch = NULL;
    uint64_t when_us;
    if (atomic_load_explicit(&handoff->length, memory_order_acquire) == 0)
        spin_for_work(handoff);
    pthread_mutex_lock(&handoff->lock);
    while (!handoff->closed && !(dispatch = first_take(handoff, &when_us)))
        sleep_until(handoff, when_us);
    bool wake = handoff->parts > 0 && handoff->sleepers > 0; /* this slot kept the time of parts that wait */
    pthread_mutex_unlock(&handoff->lock);
    if (wake)
        pthread_cond_signal(&handoff->filled);
    return dispatch;
}

struct dispatch *handoff_poll(struct handoff *handoff)
{
    struct dispatch *dispatch = NULL;
    uint64_t when_us;
    if (atomic_load_explicit(&handoff->length, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&handoff->lock);
    if (!handoff->closed && handoff->first && atomic_load(&handoff->length) > handoff->sleepers)
        dispatch = first_take(handoff, &when_us);
    pthread_mutex_unlock(&handoff->lock);
    return dispatch;
}

bool handoff_due(struct handoff *handoff)
{
    bool due = false;
    pthread_mutex_lock(&handoff->lock);
    uint64_t now_us = clock_now_us();
    for (const struct dispatch *d = handoff->first; d && !due; d = d->queue_next)
        due = ripe(handoff, d, now_us);
    pthread_mutex_unlock(&handoff->lock);
    return due;
}

void handoff_close(struct handoff *handoff)
{
    pthread_mutex_lock(&handoff->lock);
    handoff->closed = true;
    pthread_mutex_unlock(&handoff->lock);
    pthread_cond_broadcast(&handoff->filled);
}

size_t handoff_length(struct handoff *handoff)
{
    return atomic_load_explicit(&handoff->length, memory_order_relaxed);
}

size_t handoff_taken(struct handoff *handoff)
{
    return atomic_load_explicit(&handoff->taken, memory_order_relaxed);
}
