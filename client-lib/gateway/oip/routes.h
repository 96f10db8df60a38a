/*
 * routes.h - from a request to its call: path, method, who asks, and on which thread it is answered.
 * Threads: owner - the loop's.
 */
#ifndef ROUTES_H
#define ROUTES_H

#include "gateway.h"

/* An http_server_options.on_request; context: the gateway. */
void routes_take(void *gateway, struct http_request *request);
/* Looks whether the own session's listing is to be asked for anew, for health; to be called now and then. */
void routes_refresh(struct gateway *gateway);

#endif
