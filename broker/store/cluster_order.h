/*
 * cluster_order.h - a label as Redis keeps it for all brokers: a field of a hash and its value.
 *
 * The value ends with a check ("VERSION SHARE CHECK": a digest of the field and the first two), so that a value under a
 * wrong field is ignored. Older brokers read only the first two; their own values have no check and are accepted.
 * Threads: any (pure functions).
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

/* text: "MODEL LABEL VERSION [SHARE]". prefix: "?" or "". NULL: the text is no order, or there is no memory. */
struct order *order_new(const char *text, const char *prefix);

/* Lines "FIELD VALUE": removes the checks, and removes lines whose check is wrong. Returns how many were removed. */
uint32_t orders_clean(char *lines);

#endif
