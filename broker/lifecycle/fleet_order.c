#include "fleet_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "audit.h"
#include "broker_state.h"
#include "control.pb-c.h"
#include "keyring.h"
#include "logline.h"
#include "send.h"

#define TEXT_BYTES     200u
#define ARGUMENT_BYTES 301u

struct outcome {
    uint64_t worker; /* uuid */
    char name[64];
    bool answered;
    enum pen_status status;
    char text[TEXT_BYTES];
};

struct fleet_order {
    uint64_t number;         /* 0 = free */
    uint64_t client, serial; /* who asked, and as what */
    uint64_t until_us;
    char verb[8], argument[ARGUMENT_BYTES];
    struct outcome *outcomes; /* [count] */
    size_t count, open;
};

struct fleet_orders {
    struct fleet_order list[FLEET_ORDERS_MAX];
    uint64_t next;
};

struct fleet_orders *fleet_orders_new(void)
{
    return calloc(1, sizeof(struct fleet_orders));
}

void fleet_orders_free(struct fleet_orders *orders)
{
    for (size_t i = 0; orders && i < FLEET_ORDERS_MAX; i++)
        free(orders->list[i].outcomes);
    free(orders);
}

/* ---- the reply ----------------------------------------------------------------------------------------------------------------------- */

/* OK when some worker carried it out; else the status of the first answer. */
static enum pen_status verdict(const struct fleet_order *order, const char **ret_text)
{
    *ret_text = "";
    for (size_t i = 0; i < order->count; i++) {
        if (order->outcomes[i].status == PEN_OK)
            return PEN_OK;
    }
    *ret_text = order->outcomes[0].text;
    return order->outcomes[0].status;
}

/* The audit log has the order already. */
static void note_failure(struct broker *broker, const struct fleet_order *order, const struct session *session,
                         enum pen_status status)
{
    const struct identity *identity = session ? session->identity : NULL;
    const char *who = identity ? identity->name : session ? session->name : "";
    if (status != PEN_OK)
        audit_note(broker->audit, who, order->client, order->verb, order->argument, status);
}

static void fleet_order_end(struct broker *broker, struct fleet_order *order)
{
    PEN_ASSERT(order->number != 0 && order->count > 0 && order->open == 0,
               "an order ends when all workers that got it have answered");
    struct session *session = session_find(&broker->sessions, order->client);
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    Penstock__Outcome *outcomes = calloc(order->count, sizeof *outcomes), **list = calloc(order->count, sizeof *list);
    const char *text;
    for (size_t i = 0; outcomes && list && i < order->count; i++) {
        penstock__outcome__init(&outcomes[i]);
        outcomes[i].worker = order->outcomes[i].name;
        outcomes[i].status = order->outcomes[i].status;
        outcomes[i].error = order->outcomes[i].text;
        list[reply.n_outcomes++] = &outcomes[i];
    }
    reply.outcomes = list;
    reply.serial = order->serial;
    env.status = (uint8_t)verdict(order, &text);
    note_failure(broker, order, session, (enum pen_status)env.status);
    reply.error = (char *)(uintptr_t)text;
    uint8_t *meta = malloc(penstock__control_reply__get_packed_size(&reply));
    if (meta && session && session->connected)
        broker_send_client(broker, session, &env, meta, penstock__control_reply__pack(&reply, meta));
    free(meta);
    free(outcomes);
    free(list);
    free(order->outcomes);
    *order = (struct fleet_order){.number = 0};
}

/* ---- to the workers -------------------------------------------------------------------------------------------------------------------- */

static struct fleet_order *free_place(struct fleet_orders *orders)
{
    for (size_t i = 0; i < FLEET_ORDERS_MAX; i++) {
        if (orders->list[i].number == 0)
            return &orders->list[i];
    }
    return NULL;
}

bool fleet_order_send(struct broker *broker, struct worker *worker, uint64_t number, const char *verb,
                      const char *argument)
{
    uint8_t meta[512];
    struct envelope env = envelope_make(FRAME_CONTROL);
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    request.verb = (char *)(uintptr_t)verb;
    request.argument = (char *)(uintptr_t)argument;
    request.serial = number;
    return broker_send_worker(broker, worker, &env, meta, penstock__control_request__pack(&request, meta));
}

enum pen_status fleet_order_begin(struct broker *broker, struct session *session, uint64_t serial, const char *verb,
                                  const char *argument, struct pen_error *reterr)
{
    struct fleet_order *order = free_place(broker->fleet_orders);
    struct worker *worker;
    if (*argument == '\0' || strlen(argument) >= ARGUMENT_BYTES)
        return pen_error_set(reterr, PEN_ERR_INVALID, "name the model: NAME or NAME:VERSION");
    if (!order)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u orders to workers are under way; try again later",
                             FLEET_ORDERS_MAX);
    struct outcome *outcomes = calloc(broker->fleet.count ? broker->fleet.count : 1, sizeof *outcomes);
    if (!outcomes)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory for an order");
    *order = (struct fleet_order){.number = ++broker->fleet_orders->next,
                                  .client = session->uuid,
                                  .serial = serial,
                                  .until_us = broker->now_us + FLEET_ORDER_WAIT_US,
                                  .outcomes = outcomes};
    snprintf(order->verb, sizeof order->verb, "%s", verb);
    snprintf(order->argument, sizeof order->argument, "%s", argument);
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (!worker->hello->takes_orders || worker->state != WORKER_READY ||
            !fleet_order_send(broker, worker, order->number, verb, argument))
            continue;
        PEN_ASSERT(order->count < broker->fleet.count, "an order has room for each worker's answer");
        struct outcome *outcome = &order->outcomes[order->count++];
        outcome->worker = worker->uuid;
        snprintf(outcome->name, sizeof outcome->name, "%s", worker->hello->name);
    }
    order->open = order->count;
    if (order->count > 0)
        return PEN_OK;
    free(outcomes);
    *order = (struct fleet_order){.number = 0};
    return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no worker that takes orders is connected");
}

/* ---- their answers ------------------------------------------------------------------------------------------------------------------- */

static void settle(struct broker *broker, struct fleet_order *order, uint64_t worker, enum pen_status status,
                   const char *text)
{
    for (size_t i = 0; i < order->count; i++) {
        struct outcome *outcome = &order->outcomes[i];
        if (outcome->answered || (worker && outcome->worker != worker))
            continue;
        PEN_ASSERT(order->open > 0, "an answer that is missing is counted");
        outcome->answered = true;
        outcome->status = status;
        snprintf(outcome->text, sizeof outcome->text, "%.*s", (int)sizeof outcome->text - 1, text);
        order->open--;
    }
    if (order->open == 0)
        fleet_order_end(broker, order);
}

void fleet_order_answered(struct broker *broker, const struct worker *worker, enum pen_status status,
                          const uint8_t *meta, size_t bytes)
{
    meta_arena_reset(&broker->arena);
    const Penstock__ControlReply *reply =
        meta_unpack(&broker->arena, &penstock__control_reply__descriptor, meta, bytes);
    for (size_t i = 0; reply && i < FLEET_ORDERS_MAX; i++) {
        struct fleet_order *order = &broker->fleet_orders->list[i];
        if (order->number == 0 || order->number != reply->serial)
            continue;
        log_event(status == PEN_OK ? LOG_INFO : LOG_WARN, "errand_answered", "worker=%s status=%s error=%s",
                  worker->hello->name, pen_status_name(status), reply->error);
        settle(broker, order, worker->uuid, status, reply->error);
    }
}

bool fleet_order_worker_left(struct broker *broker, struct effect *effect)
{
    const struct worker *worker = effect_of(effect, struct worker, left);
    for (size_t i = 0; i < FLEET_ORDERS_MAX; i++) {
        if (broker->fleet_orders->list[i].number != 0)
            settle(broker, &broker->fleet_orders->list[i], worker->uuid, PEN_ERR_WORKER_LOST,
                   "the worker was lost before it answered");
    }
    return true;
}

void fleet_order_tick(struct broker *broker)
{
    for (size_t i = 0; i < FLEET_ORDERS_MAX; i++) {
        struct fleet_order *order = &broker->fleet_orders->list[i];
        if (order->number != 0 && broker->now_us >= order->until_us)
            settle(broker, order, 0, PEN_ERR_TIMEOUT, "the worker has not answered");
    }
}

void fleet_order_warm(struct broker *broker, struct offer *offer)
{
    char argument[300];
    struct worker *worker = offer->worker;
    snprintf(argument, sizeof argument, "%.255s:%" PRIu64, offer->model->name, offer->model->version);
    log_event(LOG_INFO, "model_wanted", "model=%s version=%" PRIu64 " worker=%s load_us=%" PRIu64, offer->model->name,
              offer->model->version, worker->hello->name, offer->meta->load_us);
    PEN_ASSERT(offer->cold && worker->state == WORKER_READY, "a worker that takes work is asked to load a cold model");
    offer->asked_us = broker->now_us ? broker->now_us : 1;
    worker->warming = offer;
    fleet_order_send(broker, worker, 0, "warm", argument); /* a worker that is gone is found by the probes */
}
