/*
 * fleet_order.h - `penstock model load|unload`: the broker sends the order to the workers and collects their answers.
 *
 * The order goes to every worker that takes orders; the client's CONTROL_REPLY is sent when all of them have answered,
 * are gone, or FLEET_ORDER_WAIT_US has passed.
 * Threads: owner.
 */
#ifndef FLEET_ORDER_H
#define FLEET_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define FLEET_ORDERS_MAX    64u        /* orders under way at a time */
#define FLEET_ORDER_WAIT_US 600000000u /* enough for a large model on a slow disk */

struct broker;
struct effect;
struct session;
struct offer;
struct worker;
struct fleet_orders;

struct fleet_orders *fleet_orders_new(void); /* NULL without memory */
void fleet_orders_free(struct fleet_orders *orders);

/* Sends the order. PEN_OK: the reply to the client comes later. Otherwise nothing was sent, and *reterr says why. */
enum pen_status fleet_order_begin(struct broker *broker, struct session *session, uint64_t serial, const char *verb,
                                  const char *argument, struct pen_error *reterr);
/* Sends one order to one worker; number 0: nobody waits for its answer. False: the worker is gone. */
bool fleet_order_send(struct broker *broker, struct worker *worker, uint64_t number, const char *verb,
                      const char *argument);
/* A worker's CONTROL_REPLY. */
void fleet_order_answered(struct broker *broker, const struct worker *worker, enum pen_status status,
                          const uint8_t *meta, size_t bytes);
bool fleet_order_worker_left(struct broker *broker, struct effect *effect); /* EFFECT_WORKER_LEFT */
void fleet_order_tick(struct broker *broker); /* answers orders that have taken too long */

/* Asks the offer's worker to load its model: CONTROL "warm". */
void fleet_order_warm(struct broker *broker, struct offer *offer);

#endif
