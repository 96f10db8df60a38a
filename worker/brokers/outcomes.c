/* outcomes.c - from the ring of what is done to the connections. */
#include "outcomes.h"

#include <inttypes.h>

void outcome_owe(const struct link *link, struct order *order)
{
    order->hellos = link->hellos;
}

static bool is_awaited(const struct link *link, const struct order *order)
{
    return link->socket && link->hellos == order->hellos;
}

void outcome_tell(struct orders *orders, struct link *link, const struct order *order)
{
    if (!is_awaited(link, order))
        log_event(LOG_INFO, "outcome_dropped", "broker=%s order=%s model=%s status=%s error=%s", link->endpoint,
                  order_name(order->kind), order->name, pen_status_name(order->outcome.status), order->outcome.text);
    else if (!link_control_reply(link, order->serial, &order->outcome))
        orders_return(orders, order);
}

/* As many as there are now: what is given back waits for the next turn. */
void outcomes_tell(struct orders *orders, struct update *update, struct brokers *brokers, uint64_t now_us)
{
    struct order order;
    for (size_t i = 0; i < ORDERS_MAX && orders_answer(orders, &order); i++) {
        update_tick(update, brokers, now_us);
        outcome_tell(orders, &brokers->links[order.link], &order);
    }
}
