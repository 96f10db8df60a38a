/*
 * waiters.h - the threads that sleep while another drives, in the order in which they came.
 *
 * Each waits for a flag that changes under the client's lock. Threads: any, with the lock held.
 */
#ifndef WAITERS_H
#define WAITERS_H

#include "core.h"

/* A condition on the clock of deadline.h. */
void cond_init(pthread_cond_t *cond);
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t limit_us);

/* Sleeps while somebody drives, until *flag, or until limit_us. Gives up the lock meanwhile. */
void waiters_follow(struct pen_client *client, const bool *flag, uint64_t limit_us);
/* Wakes those whose flag is set. */
void waiters_signal(struct pen_client *client);
/* The socket is free: the oldest waiter whose flag is not set takes it. */
void waiters_pass_on(struct pen_client *client);

#endif
