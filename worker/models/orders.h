/*
 * orders.h - orders of people (`penstock model load|unload`): their way to the watch, the way of their outcomes back,
 * and their effect on every later look at the folder.
 *
 * An order stays in force after it was carried out: an unloaded model stays unloaded until an order loads it or the
 * worker restarts, and a version loaded by order is served beside those of its version_policy.
 * Threads: orders_push, orders_answer owner - the network thread; orders_take, orders_done, orders_apply, orders_choose
 * owner - the watch's thread.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "catalog.h"

#define ORDERS_MAX 16u /* under way at a time */
#define RULES_MAX  256u

enum order_kind {
    ORDER_UNLOAD,
    ORDER_LOAD,
    ORDER_WARM /* from a broker that has jobs for a model that is not in memory */
};
const char *order_name(enum order_kind kind);

struct order {
    size_t link;     /* number of the broker that gave it */
    uint64_t serial; /* the broker's */
    uint64_t hellos; /* of the connection that brought it: outcomes.h */
    enum order_kind kind;
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version; /* 0 = by version_policy (load), all versions (unload) */
    struct pen_error outcome;
};

struct orders;

struct orders *orders_new(void); /* NULL without memory */
void orders_free(struct orders *orders);

bool orders_push(struct orders *orders, const struct order *order); /* false: too many are under way */
bool orders_take(struct orders *orders, struct order *ret_order);   /* false: there is none */
void orders_done(struct orders *orders, const struct order *order);
bool orders_answer(struct orders *orders, struct order *ret_order); /* an order that is done; false: none */
/* The order is done, but its outcome could not be sent: orders_answer() gives it again. Threads: the network
   thread's. */
void orders_return(struct orders *orders, const struct order *order);

/* Remembers the order. PEN_ERR_TOO_LARGE beyond RULES_MAX. */
enum pen_status orders_apply(struct orders *orders, const struct order *order, struct pen_error *reterr);
/* Removes entries that were unloaded from the result of a scan, and adds versions that were loaded by order. */
void orders_choose(const struct orders *orders, const char *folder, struct catalog *found);

#endif
