/*
 * update.h - the network thread's part of a changed set of models: the new hello comes into force, the broker is told, and it is known when no job for
 * what was withdrawn can be on its way any more.
 *
 * The order on one connection is what makes it certain: WORKER_UPDATE, PING; whatever the broker sent before it read the update has arrived when
 * the PONG has, and when all that was held by then is answered nothing is left.
 *
 * Threads: owner - the network thread.
 */
#ifndef UPDATE_H
#define UPDATE_H

#include "link.h"
#include "watch.h"

enum update_state {
    UPDATE_NONE,
    UPDATE_DUE,  /* there is a new list, the broker does not know it yet */
    UPDATE_SENT, /* with a PING behind it */
    UPDATE_READ  /* the broker has read it */
};

struct update {
    struct watch *watch; /* NULL: models do not change */
    enum update_state state;
    uint64_t generation, ping, read_us;
};

/* Takes what the watch has posted and moves the update on. */
void update_tick(struct update *update, struct link *link, const struct held *held, uint64_t now_us);

#endif
