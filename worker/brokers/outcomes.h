/*
 * outcomes.h - tells brokers what became of their orders.
 *
 * A broker ends the orders of a connection together with the connection (WORKER_LOST). So an outcome goes on the
 * connection that brought its order, or nowhere.
 * Threads: owner - the network thread.
 */
#ifndef OUTCOMES_H
#define OUTCOMES_H

#include "brokers.h"
#include "orders.h"
#include "update.h"

/* The order came on the link's present connection. */
void outcome_owe(const struct link *link, struct order *order);
/* Tells the outcome of such an order at once; without memory outcomes_tell() does it at a later turn. */
void outcome_tell(struct orders *orders, struct link *link, const struct order *order);
/* Tells what is done. Each change of the models that an order has caused goes first, so that the client finds it. */
void outcomes_tell(struct orders *orders, struct update *update, struct brokers *brokers, uint64_t now_us);

#endif
