/*
 * grpc_health.h - the standard health service (grpc.health.v1). Neither waits for the broker.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_HEALTH_H
#define GRPC_HEALTH_H

#include "grpc_calls.h"

/* Of the whole ("") and of each service: does the gateway have a pool that can answer? */
void grpc_health_check(const struct grpc_who *who);
/* The same now and at every change, until the peer gives the call up or the gateway ends. What is no service here is SERVICE_UNKNOWN. */
void grpc_health_watch(const struct grpc_who *who);
/* Tells the watchers what has changed; now and then, and when the gateway begins to end. */
void grpc_health_look(struct gateway *gateway);

#endif
