#include "lean.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define PLACES 4096u /* a power of two, much more than there are */

static atomic_ulong kth, counted, failed;
static atomic_uint period;
static atomic_bool fresh;
static _Thread_local bool watched;

struct place {
    _Atomic(uintptr_t) address;
    atomic_bool failed;
};
static struct place places[PLACES];

void lean_watch(bool on)
{
    watched = on;
}

static void restart(unsigned long k, unsigned every, unsigned skip)
{
    lean_fail_none();
    atomic_store(&counted, skip);
    atomic_store(&kth, k);
    atomic_store(&period, every);
}

void lean_fail_kth(unsigned long k)
{
    restart(k, 0, 0);
}

void lean_fail_every(unsigned every, unsigned skip)
{
    restart(0, every, skip);
}

void lean_fail_fresh(unsigned every)
{
    restart(0, every, 0);
    atomic_store(&fresh, true);
}

void lean_fail_none(void)
{
    atomic_store(&kth, 0);
    atomic_store(&period, 0);
    atomic_store(&fresh, false);
}

unsigned long lean_count(void)
{
    return atomic_load(&counted);
}

unsigned long lean_failed(void)
{
    return atomic_load(&failed);
}

static struct place *place_of(uintptr_t address)
{
    for (size_t i = (size_t)(address * 0x9E3779B97F4A7C15u >> 32) % PLACES;; i = (i + 1) % PLACES) {
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong(&places[i].address, &there, address) || there == address)
            return &places[i];
    }
}

static unsigned places_count(bool only_failed)
{
    unsigned count = 0;
    for (size_t i = 0; i < PLACES; i++)
        count += atomic_load(&places[i].address) != 0 && (!only_failed || atomic_load(&places[i].failed));
    return count;
}

unsigned lean_places(void)
{
    return places_count(false);
}

unsigned lean_places_failed(void)
{
    return places_count(true);
}

void lean_places_print(void)
{
    extern const char __executable_start;
    for (size_t i = 0; i < PLACES; i++)
        if (atomic_load(&places[i].address) != 0 && !atomic_load(&places[i].failed))
            fprintf(stderr, "never failed: 0x%zx\n",
                    (size_t)(atomic_load(&places[i].address) - (uintptr_t)&__executable_start));
}

static bool fails(void *caller)
{
    unsigned long k = atomic_load(&kth);
    unsigned every = atomic_load(&period);
    if (!watched || (k == 0 && every == 0))
        return false;
    unsigned long number = atomic_fetch_add(&counted, 1) + 1;
    struct place *place = place_of((uintptr_t)caller);
    bool now = k > 0 ? number == k : number % every == 0;
    now |= atomic_load(&fresh) && !atomic_load(&place->failed);
    if (now) {
        atomic_store(&place->failed, true);
        atomic_fetch_add(&failed, 1);
        errno = ENOMEM;
    }
    return now;
}

#define FAILS fails(__builtin_return_address(0))

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t items, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t bytes);
int __real_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes);
int __real_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *free_function, void *hint);
int __real_zmq_send(void *socket, const void *data, size_t bytes, int flags);
void *__real_zmq_socket(void *context, int type);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_function)(void *), void *arg);

#pragma GCC visibility push(default) /* a shared library beside us makes the linker ask for that */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t bytes);
int __wrap_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes);
int __wrap_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *free_function, void *hint);
int __wrap_zmq_send(void *socket, const void *data, size_t bytes, int flags);
void *__wrap_zmq_socket(void *context, int type);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_function)(void *), void *arg);
#pragma GCC visibility pop

void *__wrap_malloc(size_t bytes)
{
    return FAILS ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t items, size_t bytes)
{
    return FAILS ? NULL : __real_calloc(items, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return FAILS ? NULL : __real_realloc(block, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return FAILS ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return FAILS ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t bytes)
{
    return FAILS ? NULL : __real_strndup(text, bytes);
}

int __wrap_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes)
{
    return FAILS ? -1 : __real_zmq_msg_init_size(frame, bytes);
}

int __wrap_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *free_function, void *hint)
{
    return FAILS ? -1 : __real_zmq_msg_init_data(frame, data, bytes, free_function, hint);
}

int __wrap_zmq_send(void *socket, const void *data, size_t bytes, int flags)
{
    return FAILS ? -1 : __real_zmq_send(socket, data, bytes, flags);
}

void *__wrap_zmq_socket(void *context, int type)
{
    return FAILS ? NULL : __real_zmq_socket(context, type);
}

struct beginning {
    void *(*main_function)(void *);
    void *arg;
};

static void *watched_main(void *arg)
{
    struct beginning beginning = *(struct beginning *)arg;
    free(arg);
    watched = true;
    return beginning.main_function(beginning.arg);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_function)(void *), void *arg)
{
    if (!watched)
        return __real_pthread_create(thread, attr, main_function, arg);
    struct beginning *beginning = FAILS ? NULL : __real_malloc(sizeof *beginning);
    if (!beginning)
        return EAGAIN;
    *beginning = (struct beginning){main_function, arg};
    int error = __real_pthread_create(thread, attr, watched_main, beginning);
    if (error != 0)
        free(beginning);
    return error;
}
