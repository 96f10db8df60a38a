/*
 * watch.h - the models folder while the worker serves: new versions are loaded and warmed on the side, then offered;
 * what has gone is taken back.
 *
 * A change counts when two looks in a row see the same files, and nobody has one of them open for writing
 * (upload_complete.h). Until then the log has one line evt=model_waits. When a version cannot be loaded or warmed, the
 * log has one line evt=model_failed, and the models that were served are served on. A version that a newer one replaces
 * is offered until no job has asked for it for a while. Then it is withdrawn, and freed when its last job is answered.
 *
 * Loading runs with the lowest processor priority. So does warming when sessions have one thread; larger teams share
 * their threads with the slots, which would stay slow.
 *
 * Ownership: owns its thread and what it has withdrawn. Threads: watch_take, watch_settled owner - the network thread;
 * the rest one-at-a-time. From watch_new to watch_free only the watch's thread changes the catalog.
 */
#ifndef WATCH_H
#define WATCH_H

#include "fetched.h"
#include "hello.h"
#include "measurer.h"
#include "orders.h"
#include "outbox.h"
#include "states.h"

struct watch;

/* watch_us = 0: the watch looks only when an order comes. */
struct watch_context {
    struct catalog *catalog;
    struct pen_engine *engine;
    const struct options *options; /* models, model_choices, watch_us */
    struct hello_facts facts;
    struct outbox *outbox;     /* woken when a hello is posted or an order is done */
    struct orders *orders;     /* borrowed */
    struct measurer *measurer; /* told of each change; NULL = nothing is measured */
    struct fetched *fetched;   /* borrowed; asked before each look; NULL = the models lie in a folder */
    struct states *states;     /* borrowed; models with open sequences are kept */
};

enum pen_status watch_new(const struct watch_context *context, struct watch **ret_watch, struct pen_error *reterr);
void watch_free(struct watch *watch); /* waits for a load that is under way; NULL is fine */

/* An order was pushed. NULL is fine. */
void watch_wake(struct watch *watch);
/* Something else of the offers has changed than the watch does itself: they are told anew. NULL is fine. Threads: any. */
void watch_tell(struct watch *watch);

/* Gives a hello with the changed list to the caller, and the number of the change. NULL: nothing new (or no watch). */
struct hello *watch_take(struct watch *watch, uint64_t *ret_generation);
/* No job for the models that this change withdrew is held or on its way any more. */
void watch_settled(struct watch *watch, uint64_t generation);

#endif
