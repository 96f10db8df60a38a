/* handoff.c - mutex, condition, and a counter that spinning slots may read without the lock. */
#include "handoff.h"

#include "assertion.h"
#include "deadline.h"
#include "spin.h"

#include <pthread.h>
#include <stdlib.h>

struct handoff {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct dispatch *first, *last;
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
    pthread_mutex_init(&handoff->lock, NULL);
    pthread_cond_init(&handoff->filled, NULL);
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

void handoff_push(struct handoff *handoff, struct dispatch *dispatch)
{
    dispatch->queue_next = NULL;
    pthread_mutex_lock(&handoff->lock);
    *(handoff->last ? &handoff->last->queue_next : &handoff->first) = dispatch;
    handoff->last = dispatch;
    atomic_fetch_add_explicit(&handoff->length, 1, memory_order_release);
    PEN_ASSERT(!handoff->last->queue_next && handoff_length(handoff) > 0,
               "the last dispatch of a queue has none behind it");
    bool wake = handoff->sleepers > 0;
    pthread_mutex_unlock(&handoff->lock);
    if (wake)
        pthread_cond_signal(&handoff->filled);
}

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

/* Call it with the lock held, when there is a dispatch. */
static struct dispatch *first_take(struct handoff *handoff)
{
    struct dispatch *dispatch = handoff->first;
    PEN_ASSERT(dispatch && handoff_length(handoff) > 0, "what is taken has been counted");
    handoff->first = dispatch->queue_next;
    if (!handoff->first)
        handoff->last = NULL;
    atomic_fetch_sub_explicit(&handoff->length, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&handoff->taken, 1, memory_order_relaxed);
    PEN_ASSERT((handoff_length(handoff) == 0) == (handoff->first == NULL), "a queue's length is that of its list");
    return dispatch;
}

struct dispatch *handoff_take(struct handoff *handoff)
{
    struct dispatch *dispatch = NULL;
    if (atomic_load_explicit(&handoff->length, memory_order_acquire) == 0)
        spin_for_work(handoff);
    pthread_mutex_lock(&handoff->lock);
    while (!handoff->first && !handoff->closed) {
        handoff->sleepers++;
        pthread_cond_wait(&handoff->filled, &handoff->lock);
        handoff->sleepers--;
    }
    if (!handoff->closed)
        dispatch = first_take(handoff);
    pthread_mutex_unlock(&handoff->lock);
    return dispatch;
}

struct dispatch *handoff_poll(struct handoff *handoff)
{
    struct dispatch *dispatch = NULL;
    if (atomic_load_explicit(&handoff->length, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&handoff->lock);
    if (!handoff->closed && handoff->first && atomic_load(&handoff->length) > handoff->sleepers)
        dispatch = first_take(handoff);
    pthread_mutex_unlock(&handoff->lock);
    return dispatch;
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
