/*
 * update.h - the network thread's part of a changed set of models: the new hello comes into force, the brokers are told, and it is known when no job for
 * what was withdrawn can be on its way any more.
 *
 * The order on one connection is what makes it certain: WORKER_UPDATE, PING; whatever the broker sent before it read the update has arrived when
 * the PONG has, and when all that was held by then is answered nothing is left. A broker that is not connected learns the new list from the
 * hello: it waits only for what is still held for it.
 *
 * Threads: owner - the network thread.
 */
#ifndef UPDATE_H
#define UPDATE_H

#include "brokers.h"
#include "watch.h"

enum update_state {
    UPDATE_NONE,
    UPDATE_DUE,  /* there is a new list, the broker does not know it yet */
    UPDATE_SENT, /* with a PING behind it */
    UPDATE_READ  /* the broker has read it, or will begin with it */
};

struct update {
    struct watch *watch; /* NULL: models do not change */
    uint64_t generation;
    bool open; /* a change has not settled with every broker */
    struct update_link {
        enum update_state state;
        uint64_t ping, hellos, read_us;
    } links[ENDPOINTS_MAX];
};

/* Takes what the watch has posted and moves the update on with every broker. */
void update_tick(struct update *update, struct brokers *brokers, uint64_t now_us);

#endif
