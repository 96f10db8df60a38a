/* orders.c - two short rings under a lock, and a list of rules. */
#include "orders.h"

#include "assertion.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ring {
    struct order items[ORDERS_MAX];
    size_t first, count;
};

struct rule {
    char *name;
    uint64_t version; /* 0 = every version without a rule of its own */
    bool load;
};

struct orders {
    pthread_mutex_t lock; /* guards the rings */
    struct ring asked, done;
    size_t under_way; /* orders that have no answer yet */
    struct rule rules[RULES_MAX];
    size_t rules_count;
};

const char *order_name(enum order_kind kind)
{
    static const char *const names[] = {[ORDER_UNLOAD] = "unload", [ORDER_LOAD] = "load", [ORDER_WARM] = "warm"};
    return names[kind];
}

struct orders *orders_new(void)
{
    struct orders *orders = calloc(1, sizeof *orders);
    if (orders)
        pthread_mutex_init(&orders->lock, NULL);
    return orders;
}

void orders_free(struct orders *orders)
{
    if (!orders)
        return;
    for (size_t i = 0; i < orders->rules_count; i++)
        free(orders->rules[i].name);
    pthread_mutex_destroy(&orders->lock);
    free(orders);
}

/* ---- to the watch and back ------------------------------------------------------------------------------------------------------------ */

static void ring_put(struct ring *ring, const struct order *order)
{
    PEN_ASSERT(ring->count < ORDERS_MAX, "a ring has a place for an order that comes");
    ring->items[(ring->first + ring->count++) % ORDERS_MAX] = *order;
}

static bool ring_get(struct ring *ring, struct order *ret_order)
{
    if (ring->count == 0)
        return false;
    *ret_order = ring->items[ring->first];
    ring->first = (ring->first + 1) % ORDERS_MAX;
    ring->count--;
    PEN_ASSERT(ring->first < ORDERS_MAX && ring->count < ORDERS_MAX, "a ring's first order is in it");
    return true;
}

bool orders_push(struct orders *orders, const struct order *order)
{
    pthread_mutex_lock(&orders->lock);
    bool room = orders->under_way < ORDERS_MAX;
    if (room) {
        orders->under_way++;
        ring_put(&orders->asked, order);
    }
    pthread_mutex_unlock(&orders->lock);
    return room;
}

bool orders_take(struct orders *orders, struct order *ret_order)
{
    pthread_mutex_lock(&orders->lock);
    bool any = ring_get(&orders->asked, ret_order);
    pthread_mutex_unlock(&orders->lock);
    return any;
}

void orders_done(struct orders *orders, const struct order *order)
{
    pthread_mutex_lock(&orders->lock);
    ring_put(&orders->done, order);
    pthread_mutex_unlock(&orders->lock);
}

bool orders_answer(struct orders *orders, struct order *ret_order)
{
    pthread_mutex_lock(&orders->lock);
    bool any = ring_get(&orders->done, ret_order);
    orders->under_way -= any;
    pthread_mutex_unlock(&orders->lock);
    return any;
}

void orders_return(struct orders *orders, const struct order *order)
{
    pthread_mutex_lock(&orders->lock);
    if (orders->under_way < ORDERS_MAX) {
        orders->under_way++;
        ring_put(&orders->done, order);
    }
    pthread_mutex_unlock(&orders->lock);
}

/* ---- what they mean later ------------------------------------------------------------------------------------------------------------- */

static void rule_drop(struct orders *orders, size_t index)
{
    free(orders->rules[index].name);
    orders->rules[index] = orders->rules[--orders->rules_count];
}

/* An order about the whole model replaces all earlier orders about its versions. */
enum pen_status orders_apply(struct orders *orders, const struct order *order, struct pen_error *reterr)
{
    for (size_t i = orders->rules_count; i-- > 0;)
        if (strcmp(orders->rules[i].name, order->name) == 0 &&
            (order->version == 0 || orders->rules[i].version == order->version))
            rule_drop(orders, i);
    if (order->kind == ORDER_LOAD && order->version == 0)
        return PEN_OK; /* as at the start: version_policy decides */
    if (orders->rules_count == RULES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "this worker remembers %u orders about models, no more",
                             RULES_MAX);
    struct rule rule = {.name = strdup(order->name), .version = order->version, .load = order->kind == ORDER_LOAD};
    if (!rule.name)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an order");
    orders->rules[orders->rules_count++] = rule;
    return PEN_OK;
}

static const struct rule *rule_of(const struct orders *orders, const char *name, uint64_t version)
{
    const struct rule *general = NULL;
    for (size_t i = 0; i < orders->rules_count; i++) {
        const struct rule *rule = &orders->rules[i];
        if (strcmp(rule->name, name) != 0)
            continue;
        if (rule->version == version)
            return rule;
        general = rule->version == 0 ? rule : general;
    }
    return general;
}

static bool is_among(const struct catalog *found, const struct rule *rule)
{
    for (size_t i = 0; i < found->entries_count; i++)
        if (found->entries[i].version == rule->version && strcmp(found->entries[i].name, rule->name) == 0)
            return true;
    return false;
}

void orders_choose(const struct orders *orders, const char *folder, struct catalog *found)
{
    char choice[CONFIG_NAME_BYTES_MAX + 32];
    for (size_t i = found->entries_count; i-- > 0;) {
        const struct rule *rule = rule_of(orders, found->entries[i].name, found->entries[i].version);
        if (rule && !rule->load)
            catalog_entry_drop(found, i);
    }
    for (size_t i = 0; i < orders->rules_count; i++) {
        const struct rule *rule = &orders->rules[i];
        if (!rule->load || is_among(found, rule))
            continue;
        snprintf(choice, sizeof choice, "%s:%" PRIu64, rule->name, rule->version);
        catalog_choose(found, folder, choice);
    }
}
