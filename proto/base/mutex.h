/*
 * mutex.h - a lock whose uses are checked: whoever takes it does not hold it, whoever gives it back does, and nobody
 * holds it at its end.
 * Threads: any.
 */
#ifndef MUTEX_H
#define MUTEX_H

#include <pthread.h>

#include "assertion.h"

static inline void mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    int error = pthread_mutex_init(mutex, &attributes);
    PEN_ASSERT(error == 0, "a lock needs no memory to begin");
    pthread_mutexattr_destroy(&attributes);
}

static inline void mutex_take(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_lock(mutex);
    PEN_ASSERT(error == 0, "who takes a lock does not hold it");
}

static inline void mutex_give(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_unlock(mutex);
    PEN_ASSERT(error == 0, "who gives a lock back holds it");
}

static inline void mutex_fini(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_destroy(mutex);
    PEN_ASSERT(error == 0, "nobody holds a lock at its end");
}

#endif
