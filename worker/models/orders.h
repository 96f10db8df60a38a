/*
 * orders.h - what people said with `penstock model load|unload`: orders on their way to the watch, their outcomes on the way back, and what they
 * mean for every later look at the folder.
 *
 * An order outlives its execution: a model that was unloaded stays so until it is loaded again or the worker restarts, and a version that was
 * asked for serves beside what its version_policy chooses.
 * Threads: orders_push, orders_answer owner - the network thread; orders_take, orders_done, orders_apply, orders_choose owner - the watch's thread.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "catalog.h"

#define ORDERS_MAX 16u /* under way at a time */
#define RULES_MAX  256u

enum order_kind {
    ORDER_UNLOAD,
    ORDER_LOAD,
    ORDER_WARM /* a broker's: it has jobs for a model that is not in memory */
};
const char *order_name(enum order_kind kind);

struct order {
    size_t link;     /* the broker that gave it, by number */
    uint64_t serial; /* the broker's */
    enum order_kind kind;
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version; /* 0 = by the policy (load), all (unload) */
    struct pen_error outcome;
};

struct orders;

struct orders *orders_new(void); /* NULL without memory */
void orders_free(struct orders *orders);

bool orders_push(struct orders *orders, const struct order *order); /* false: too many are under way */
bool orders_take(struct orders *orders, struct order *ret_order);   /* false: there is none */
void orders_done(struct orders *orders, const struct order *order);
bool orders_answer(struct orders *orders, struct order *ret_order); /* one that is done; false: none */
/* Done, and its outcome could not be told: orders_answer() gives it again. Threads: the network thread's. */
void orders_return(struct orders *orders, const struct order *order);

/* Remembers the order. PEN_ERR_TOO_LARGE beyond RULES_MAX. */
enum pen_status orders_apply(struct orders *orders, const struct order *order, struct pen_error *reterr);
/* Takes entries that were unloaded out of what a scan has found, and adds versions that were asked for. */
void orders_choose(const struct orders *orders, const char *folder, struct catalog *found);

#endif
