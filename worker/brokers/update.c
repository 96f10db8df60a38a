/* update.c - each broker has one of four states, and the loop moves it on. */
#include "update.h"

static bool all_answered_since(const struct in_flight *in_flight, uint64_t us)
{
    return !in_flight->first || in_flight->first->received_us > us;
}

static void link_step(struct update_link *update, struct link *link, uint64_t now_us)
{
    bool said_again = update->state == UPDATE_SENT && update->hellos != link->hellos;
    bool unknown = update->state == UPDATE_DUE && link->state != LINK_SERVING;
    if (said_again || unknown) {
        update->state = UPDATE_READ; /* no connection, or one whose hello has the new list (brokers_hello_replace) */
        update->read_us = now_us;
    }
    if (update->state == UPDATE_DUE && link_update(link)) { /* without memory: at a later tick */
        update->ping = link_ping(link);
        update->hellos = link->hellos;
        update->state = UPDATE_SENT;
    }
    if (update->state == UPDATE_SENT && link->pongs >= update->ping) {
        update->read_us = now_us;
        update->state = UPDATE_READ;
    }
    if (update->state == UPDATE_READ && all_answered_since(&link->in_flight, update->read_us))
        update->state = UPDATE_NONE;
}

void update_tick(struct update *update, struct brokers *brokers, uint64_t now_us)
{
    bool open = false;
    struct hello *hello = watch_take(update->watch, &update->generation);
    if (hello) {
        brokers_hello_replace(brokers, hello, now_us);
        update->open = true;
        for (size_t i = 0; i < brokers->count; i++)
            update->links[i].state = UPDATE_DUE;
    }
    for (size_t i = 0; update->open && i < brokers->count; i++) {
        link_step(&update->links[i], &brokers->links[i], now_us);
        open |= update->links[i].state != UPDATE_NONE;
    }
    if (update->open && !open) {
        watch_settled(update->watch, update->generation);
        update->open = false;
    }
}
