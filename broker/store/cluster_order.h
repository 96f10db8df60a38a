/*
 * cluster_order.h - a label as Redis keeps it for all brokers: a field of a hash and its value.
 *
 * The value says at its end what it belongs to ("VERSION SHARE CHECK": a digest of the field with the first two), so that one that lies under another
 * field is not believed. Brokers before this read the first two alone, and what they wrote has no check and is believed. Threads: any (pure functions).
 */
#ifndef CLUSTER_ORDER_H
#define CLUSTER_ORDER_H

#include <stdint.h>
#include <sys/queue.h>

#include "cluster.h"

#define ORDER_FIELD_BYTES (256u + CLUSTER_LABEL_BYTES_MAX + 1u) /* "MODEL LABEL" */

struct order {
    char field[ORDER_FIELD_BYTES], value[64]; /* value "": taken back; "?...": only where Redis has none */
    TAILQ_ENTRY(order) in_list;
};
TAILQ_HEAD(order_list, order);

/* text: "MODEL LABEL VERSION [SHARE]". prefix: "?" or "". NULL: that is no order, or there is no memory for it. */
struct order *order_new(const char *text, const char *prefix);

/* Lines "FIELD VALUE": takes their checks off, and those whose check is wrong out. Returns how many these were. */
uint32_t orders_clean(char *lines);

#endif
