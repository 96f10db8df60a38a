#include "backend/xnnpack/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"

#define SPINS_HELPER 4000 /* about 100 us of pauses before a helper sleeps: the gap between two operators is far less */
#define SPINS_CALLER 2000 /* before the caller gives its processor away while a unit is under way */

#define REST 256 /* short loops after a helper was late: some milliseconds */

/* A thread's share of the units; on a cache line of its own. */
struct share {
    _Alignas(64) atomic_size_t next;
    size_t end;
};

struct helper {
    struct team *team;
    uint32_t self;
    pthread_t thread;
};

struct team {
    uint32_t threads;
    /* The loop in progress. `open` is its number, or 0 between loops; the other fields stand still while it is not 0 or helpers are inside. */
    atomic_uint_fast64_t open;
    atomic_uint inside;
    void (*task)(void *context, size_t unit);
    void *context;
    struct share *shares; /* [threads] */
    uint64_t number;      /* of the last loop; the caller's */
    uint32_t rest;        /* short loops that the caller does alone from now on */
    /* Sleeping helpers. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint sleepers;
    atomic_bool stop;
    uint32_t started;
    struct helper helpers[];
};

static _Thread_local uint32_t self_here;

uint32_t team_self(void)
{
    return self_here;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void units_take(struct team *t)
{
    for (uint32_t k = 0; k < t->threads; k++) {
        struct share *s = &t->shares[(self_here + k) % t->threads];
        while (atomic_load(&s->next) < s->end) {
            size_t u = atomic_fetch_add(&s->next, 1);
            if (u < s->end) {
                t->task(t->context, u);
            }
        }
    }
}

/*
 * A helper counts itself in, then looks whether the loop is still open; the caller closes the loop, then looks whether anybody is inside. Both in one total
 * order: either the helper sees it closed, or the caller sees the helper.
 */
static void join_loop(struct team *t, uint64_t *seen)
{
    atomic_fetch_add(&t->inside, 1);
    uint64_t open = atomic_load(&t->open);
    if (open != 0 && open != *seen) {
        *seen = open;
        units_take(t);
    }
    atomic_fetch_sub(&t->inside, 1);
}

static bool loop_waits(struct team *t, uint64_t seen)
{
    uint64_t open = atomic_load(&t->open);
    return (open != 0 && open != seen) || atomic_load(&t->stop);
}

static void *helper(void *argument)
{
    const struct helper *h = argument;
    struct team *t = h->team;
    uint64_t seen = 0;
    self_here = h->self;
    while (!atomic_load(&t->stop)) {
        int spins = 0;
        while (spins < SPINS_HELPER && !loop_waits(t, seen)) {
            pause_briefly();
            spins++;
        }
        if (spins == SPINS_HELPER) {
            pthread_mutex_lock(&t->lock);
            atomic_fetch_add(&t->sleepers, 1);
            while (!loop_waits(t, seen)) {
                pthread_cond_wait(&t->wake, &t->lock);
            }
            atomic_fetch_sub(&t->sleepers, 1);
            pthread_mutex_unlock(&t->lock);
        }
        join_loop(t, &seen);
    }
    return NULL;
}

static void wake_all(struct team *t)
{
    if (atomic_load(&t->sleepers) > 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
}

struct team *team_new(uint32_t threads)
{
    struct team *t = calloc(1, sizeof *t + threads * sizeof t->helpers[0]);
    struct share *shares = aligned_alloc(64, threads * sizeof *shares);
    if (t == NULL || shares == NULL) {
        free(t);
        free(shares);
        return NULL;
    }
    memset(shares, 0, threads * sizeof *shares);
    t->shares = shares;
    t->threads = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (; t->started + 1 < threads; t->started++) {
        struct helper *h = &t->helpers[t->started];
        *h = (struct helper){.team = t, .self = t->started + 1};
        if (pthread_create(&h->thread, NULL, helper, h) != 0) {
            team_free(t);
            return NULL;
        }
    }
    return t;
}

/* The processor of `of` that comes `skip` places behind its first. */
static size_t processor_at(const cpu_set_t *of, unsigned skip)
{
    size_t cpu = 0;
    for (; !CPU_ISSET(cpu, of) || skip > 0; cpu++) {
        skip -= CPU_ISSET(cpu, of) ? 1 : 0;
    }
    return cpu;
}

/* Cores come before their second threads. */
void team_pin(struct team *t)
{
    static atomic_uint next; /* processor */
    cpu_set_t all, cores, others;
    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0 || CPU_COUNT(&all) == 0) {
        return;
    }
    cores_of(CORES_ROOT, &all, &cores);
    CPU_XOR(&others, &all, &cores);
    unsigned base = atomic_fetch_add(&next, t->threads), first = (unsigned)CPU_COUNT(&cores);
    for (uint32_t i = 0; i < t->started; i++) {
        unsigned place = (base + i + 1) % (unsigned)CPU_COUNT(&all);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(place < first ? processor_at(&cores, place) : processor_at(&others, place - first), &one);
        (void)pthread_setaffinity_np(t->helpers[i].thread, sizeof one, &one); /* advice */
    }
}

void team_free(struct team *t)
{
    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->stop, true);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->started; i++) {
        pthread_join(t->helpers[i].thread, NULL);
    }
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->shares);
    free(t);
}

uint32_t team_threads(const struct team *t)
{
    return t != NULL ? t->threads : 1;
}

/* True when a helper was late: it had a unit for longer than the caller cared to spin. */
static bool loop_run(struct team *t, void (*task)(void *context, size_t unit), void *context, size_t units)
{
    t->task = task;
    t->context = context;
    for (uint32_t k = 0; k < t->threads; k++) {
        t->shares[k].end = units * (k + 1) / t->threads;
        atomic_store(&t->shares[k].next, units * k / t->threads);
    }
    atomic_store(&t->open, ++t->number);
    wake_all(t);
    units_take(t);
    atomic_store(&t->open, 0);
    int spins = 0;
    for (; atomic_load(&t->inside) > 0; spins++) {
        if (spins < SPINS_CALLER) {
            pause_briefly();
        } else {
            sched_yield();
        }
    }
    return spins > SPINS_CALLER;
}

void team_run(struct team *t, void (*task)(void *context, size_t unit), void *context, size_t units)
{
    (void)loop_run(t, task, context, units);
}

void team_run_short(struct team *t, void (*task)(void *context, size_t unit), void *context, size_t units)
{
    if (t->rest == 0) {
        t->rest = loop_run(t, task, context, units) ? REST : 0;
        return;
    }
    t->rest--;
    for (size_t u = 0; u < units; u++) {
        task(context, u);
    }
}
