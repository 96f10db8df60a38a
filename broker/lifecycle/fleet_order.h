/*
 * fleet_order.h - `penstock model load|unload`: a question that workers answer, each in its own time.
 *
 * The order goes to every worker that takes orders; the client's CONTROL_REPLY is sent when all of them have answered, are gone, or
 * FLEET_ORDER_WAIT_US has passed.
 * Threads: owner.
 */
#ifndef FLEET_ORDER_H
#define FLEET_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define FLEET_ORDERS_MAX    64u        /* under way */
#define FLEET_ORDER_WAIT_US 600000000u /* a large model on a slow disk */

struct broker;
struct session;
struct offer;
struct worker;
struct fleet_orders;

struct fleet_orders *fleet_orders_new(void); /* NULL without memory */
void fleet_orders_free(struct fleet_orders *orders);

/* Sends the order. PEN_OK: the reply comes later. Otherwise nothing was begun, and *reterr says why. */
enum pen_status fleet_order_begin(struct broker *broker, struct session *session, uint64_t serial, const char *verb,
                                  const char *argument, struct pen_error *reterr);
/* One order to one worker; number 0: nobody waits for what it says. False: the worker is gone. */
bool fleet_order_send(struct broker *broker, struct worker *worker, uint64_t number, const char *verb,
                      const char *argument);
/* A worker's CONTROL_REPLY. */
void fleet_order_answered(struct broker *broker, const struct worker *worker, enum pen_status status,
                          const uint8_t *meta, size_t bytes);
void fleet_order_worker_gone(struct broker *broker, const struct worker *worker);
void fleet_order_tick(struct broker *broker); /* gives up on what takes too long */

/* Asks the offer's worker to load its model: CONTROL "warm". */
void fleet_order_warm(struct broker *broker, struct offer *offer);

#endif
