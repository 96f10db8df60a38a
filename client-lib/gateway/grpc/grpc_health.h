/*
 * grpc_health.h - the standard health service (grpc.health.v1). Both functions answer at once.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_HEALTH_H
#define GRPC_HEALTH_H

#include "grpc_calls.h"

/* Of the whole ("") and of each service: does the gateway have a pool that can answer? */
void grpc_health_check(const struct grpc_who *who);
/* Is not there: clients then ask Check again and again. */
void grpc_health_watch(const struct grpc_who *who);

#endif
