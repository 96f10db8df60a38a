/* update.c - four states, moved on by the loop. */
#include "update.h"

static bool all_answered_since(const struct held *held, uint64_t us)
{
    return !held->first || held->first->received_us > us;
}

void update_tick(struct update *update, struct link *link, const struct held *held, uint64_t now_us)
{
    struct hello *hello = watch_take(update->watch, &update->generation);
    if (hello) {
        link_hello_replace(link, hello);
        update->state = UPDATE_DUE;
    }
    if (update->state == UPDATE_SENT && link->state != LINK_SERVING)
        update->state = UPDATE_DUE; /* the connection broke: nobody knows whether it was read */
    if (update->state == UPDATE_DUE && link->state == LINK_SERVING) {
        link_update(link);
        update->ping = link_ping(link);
        update->state = UPDATE_SENT;
    }
    if (update->state == UPDATE_SENT && link->pongs >= update->ping) {
        update->read_us = now_us;
        update->state = UPDATE_READ;
    }
    if (update->state == UPDATE_READ && all_answered_since(held, update->read_us)) {
        watch_settled(update->watch, update->generation);
        update->state = UPDATE_NONE;
    }
}
