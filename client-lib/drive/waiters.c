#include "waiters.h"

#include <time.h>

#include "assertion.h"
#include "deadline.h"

struct waiter {
    struct waiter *next;
    const bool *flag;
    bool signalled;
    pthread_cond_t cond;
};

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t limit_us)
{
    if (limit_us == DEADLINE_NONE) {
        pthread_cond_wait(cond, lock);
        return;
    }
    struct timespec at = {.tv_sec = (time_t)(limit_us / 1000000), .tv_nsec = (long)(limit_us % 1000000) * 1000};
    pthread_cond_timedwait(cond, lock, &at);
}

void waiters_signal(struct pen_client *c)
{
    for (struct waiter *w = c->waiters; w; w = w->next) {
        if (*w->flag && !w->signalled) {
            w->signalled = true;
            pthread_cond_signal(&w->cond);
        }
    }
}

void waiters_pass_on(struct pen_client *c)
{
    for (struct waiter *w = c->waiters; w; w = w->next) {
        if (!*w->flag) {
            pthread_cond_signal(&w->cond);
            return;
        }
    }
}

void waiters_follow(struct pen_client *c, const bool *flag, uint64_t limit_us)
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
    for (at = &c->waiters; *at && *at != &self;) {
        at = &(*at)->next;
    }
    PEN_ASSERT(*at == &self, "who waits is among the waiters until it has enough");
    *at = self.next;
    pthread_cond_destroy(&self.cond);
}
