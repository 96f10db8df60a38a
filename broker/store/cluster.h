/*
 * cluster.h - what the brokers of one Redis have in common besides results and detached jobs: how many they are, and which labels versions carry.
 *
 * Each broker says once a second that it is there; one that has said nothing for three seconds, by Redis' clock, is not counted any more. By their number
 * quotas are divided (keyring.h). Orders of labels (label.h) are kept in Redis, where every broker finds those of the others, and a broker that starts those
 * of before. A Redis that has forgotten them is told again by whoever knows them. While Redis is gone the last number counts, orders count at this broker
 * alone, and the others hear of them when it is back.
 *
 * Keys behind `NAMESPACE:commons`: `:brokers` sorted set of uuids by the end of their time; `:labels` hash of "MODEL LABEL" to "VERSION SHARE_PPM"; `:turns`
 * counts the changes of the labels; `:epoch` is another one in a Redis that has forgotten. They are gone 30 days after the last broker.
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

/* The place is copied. Returns at once: the first word comes when Redis is there. */
enum pen_status cluster_new(const struct redis_place *place, const char *namespace, uint64_t broker_uuid,
                            struct cluster **ret_cluster, struct pen_error *reterr);
void cluster_free(struct cluster *cluster); /* says goodbye, so that the others need not wait; NULL is fine */

/* Brokers that share the Redis, this one included: at least 1, also without a cluster (NULL). */
uint32_t cluster_brokers(const struct cluster *cluster);
/* Labels in Redis that were under another name than they were set for, each time that they were heard; they are not believed. */
uint32_t cluster_mismatched(const struct cluster *cluster);
/* An order that this broker has taken: "MODEL LABEL VERSION [SHARE_PPM]". NULL is fine. */
void cluster_tell(struct cluster *cluster, const char *order);
/* True: *ret_orders has all orders there are, one a line, malloc'd. Not while an order of our own is under way. NULL is fine. */
bool cluster_hear(struct cluster *cluster, char **ret_orders);

#endif
