/* frames.c - a table of the zmq_msg_t that hold received bytes, kept by zmq's functions as this program calls them. */
#include "frames.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#define PLACES 65536u /* a power of two, much more than are ever open */

/* Removed places stay in the way of a search: they have a frame of no address. */
struct place {
    const zmq_msg_t *frame; /* NULL: never used */
    size_t bytes;
};

static const zmq_msg_t *const removed = (const zmq_msg_t *)UINTPTR_MAX;
static struct place places[PLACES];
static size_t open_count, forgotten;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Visible, because the linker finds the names of zmq's functions in libpenstock.so, too (whose own calls stay as they are). */
#pragma GCC visibility push(default)
int __real_zmq_msg_init(zmq_msg_t *frame);
int __real_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags);
int __real_zmq_msg_send(zmq_msg_t *frame, void *socket, int flags);
int __real_zmq_msg_move(zmq_msg_t *to, zmq_msg_t *from);
int __real_zmq_msg_close(zmq_msg_t *frame);
int __wrap_zmq_msg_init(zmq_msg_t *frame);
int __wrap_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *frame, void *socket, int flags);
int __wrap_zmq_msg_move(zmq_msg_t *to, zmq_msg_t *from);
int __wrap_zmq_msg_close(zmq_msg_t *frame);
const char *__lsan_default_suppressions(void); /* LeakSanitizer asks for it by its name */
#pragma GCC visibility pop

static size_t first_place(const zmq_msg_t *frame)
{
    return (size_t)((uintptr_t)frame * UINT64_C(0x9E3779B97F4A7C15) >> 32) % PLACES;
}

static struct place *find(const zmq_msg_t *frame)
{
    for (size_t i = first_place(frame); places[i].frame; i = (i + 1) % PLACES)
        if (places[i].frame == frame)
            return &places[i];
    return NULL;
}

/* Call it with the lock held. */
static void put(const zmq_msg_t *frame, size_t bytes)
{
    size_t i = first_place(frame);
    while (places[i].frame && places[i].frame != removed)
        i = (i + 1) % PLACES;
    places[i] = (struct place){frame, bytes};
    if (++open_count > PLACES / 2)
        abort();
}

/* Call it with the lock held. False: it holds nothing that was received. */
static bool take(const zmq_msg_t *frame, size_t *ret_bytes)
{
    struct place *place = find(frame);
    if (!place)
        return false;
    *ret_bytes = place->bytes;
    bool last = !places[(size_t)(place - places + 1) % PLACES].frame;
    place->frame = last ? NULL : removed;
    open_count--;
    return true;
}

/* Call it with the lock held. */
static void forget(const zmq_msg_t *frame)
{
    size_t bytes;
    if (!take(frame, &bytes))
        return;
    forgotten++;
    fprintf(stderr, "left at exit: a received frame of %zu bytes whose place is used again\n", bytes);
}

int __wrap_zmq_msg_init(zmq_msg_t *frame)
{
    pthread_mutex_lock(&lock);
    forget(frame);
    pthread_mutex_unlock(&lock);
    return __real_zmq_msg_init(frame);
}

int __wrap_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags)
{
    int bytes = __real_zmq_msg_recv(frame, socket, flags);
    size_t before;
    pthread_mutex_lock(&lock);
    take(frame, &before); /* libzmq closes what was in it */
    if (bytes >= 0)
        put(frame, (size_t)bytes);
    pthread_mutex_unlock(&lock);
    return bytes;
}

int __wrap_zmq_msg_send(zmq_msg_t *frame, void *socket, int flags)
{
    int bytes = __real_zmq_msg_send(frame, socket, flags);
    size_t before;
    pthread_mutex_lock(&lock);
    if (bytes >= 0)
        take(frame, &before);
    pthread_mutex_unlock(&lock);
    return bytes;
}

int __wrap_zmq_msg_move(zmq_msg_t *to, zmq_msg_t *from)
{
    int failed = __real_zmq_msg_move(to, from);
    size_t bytes;
    pthread_mutex_lock(&lock);
    if (failed == 0) {
        take(to, &bytes); /* libzmq closes what was in it */
        if (take(from, &bytes))
            put(to, bytes);
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

int __wrap_zmq_msg_close(zmq_msg_t *frame)
{
    size_t bytes;
    pthread_mutex_lock(&lock);
    take(frame, &bytes);
    pthread_mutex_unlock(&lock);
    return __real_zmq_msg_close(frame);
}

size_t frames_open(void)
{
    pthread_mutex_lock(&lock);
    size_t count = open_count;
    pthread_mutex_unlock(&lock);
    return count;
}

size_t frames_forgotten(void)
{
    pthread_mutex_lock(&lock);
    size_t count = forgotten;
    pthread_mutex_unlock(&lock);
    return count;
}

static void __attribute__((destructor)) look(void)
{
    for (size_t i = 0; i < PLACES; i++)
        if (places[i].frame && places[i].frame != removed)
            fprintf(stderr, "left at exit: a received frame of %zu bytes\n", places[i].bytes);
}

const char *__lsan_default_suppressions(void)
{
    return "leak:libzmq.so\n";
}
