/*
 * update.h - the network thread's part of a change of models: it puts the new hello into force, tells the brokers, and
 * finds out when no job for a withdrawn model can be on its way any more.
 *
 * It is certain because messages on one connection keep their order: the worker sends WORKER_UPDATE, then PING. When
 * the PONG has come, all jobs that the broker sent before it read the update have come, too. When the jobs that are
 * held at that time are answered, none is left. A broker that is not connected learns the new list from the hello; only
 * the jobs that are still held for it remain.
 *
 * Threads: owner - the network thread.
 */
#ifndef UPDATE_H
#define UPDATE_H

#include "brokers.h"
#include "watch.h"

enum update_state {
    UPDATE_NONE,
    UPDATE_DUE,  /* there is a new list, and the broker has not been told */
    UPDATE_SENT, /* the update was sent, with a PING behind it */
    UPDATE_READ  /* the broker has read the new list, or will get it with the hello */
};

struct update {
    struct watch *watch; /* NULL: models do not change */
    uint64_t generation;
    bool open; /* a change is not complete yet with every broker */
    struct update_link {
        enum update_state state;
        uint64_t ping, hellos, read_us;
    } links[ENDPOINTS_MAX];
};

/* Takes the change that the watch has posted, and moves it on with every broker. */
void update_tick(struct update *update, struct brokers *brokers, uint64_t now_us);

#endif
