/*
 * cluster.h - what the brokers of one Redis share besides results and detached jobs: their number, and the labels of
 * versions.
 *
 * Each broker says once a second that it is there; after three seconds without a word, by Redis' clock, it is not
 * counted any more. Quotas are divided by the number of brokers (keyring.h). Orders that set labels (label.h) are kept
 * in Redis, where each broker finds the orders of the others, and those from before its start. When Redis has lost
 * them, any broker that knows them writes them again. While Redis is gone, the last number of brokers counts, and an
 * order counts only at the broker that took it; the others get it when Redis is back.
 *
 * Keys behind `NAMESPACE:commons`: `:brokers` sorted set of uuids by the end of their time; `:labels` hash of "MODEL
 * LABEL" to "VERSION SHARE_PPM"; `:turns` counts the changes of the labels; `:epoch` changes when Redis has lost its
 * data. The keys expire 30 days after the last broker has gone.
 * Threads: owner; a thread of its own talks to Redis, so that the loop waits for nothing.
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "penstock/status.h"
#include "redis_place.h"

#define CLUSTER_LABELS_MAX      1024u
#define CLUSTER_LABEL_BYTES_MAX 64u

struct cluster;

/* Copies the place. Returns at once: the first answer comes when Redis is reachable. */
enum pen_status cluster_new(const struct redis_place *place, const char *namespace, uint64_t broker_uuid,
                            struct cluster **ret_cluster, struct pen_error *reterr);
void cluster_free(struct cluster *cluster); /* says goodbye, so that the others need not wait; NULL is fine */

/* Brokers that share the Redis, this one included: at least 1, also without a cluster (NULL). */
uint32_t cluster_brokers(const struct cluster *cluster);
/* How often labels in Redis were found under another name than they were set for; they are ignored. */
uint32_t cluster_mismatched(const struct cluster *cluster);
/* Shares an order that this broker has taken: "MODEL LABEL VERSION [SHARE_PPM]". NULL is fine. */
void cluster_tell(struct cluster *cluster, const char *order);
/* True when the orders in Redis have changed: *ret_orders has all of them, one a line, malloc'd. Never while an
   order of our own is under way. NULL is fine. */
bool cluster_hear(struct cluster *cluster, char **ret_orders);

#endif
