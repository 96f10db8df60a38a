/*
 * gateway_options.h - the settings of penstock-gateway.
 * Threads: one-at-a-time, at start.
 */
#ifndef GATEWAY_OPTIONS_H
#define GATEWAY_OPTIONS_H

#include <stdbool.h>

#include "regions.h"
#include "settings.h"

struct gateway_options {
    const char *broker, *tenant, *key, *broker_key, *tokens, *http, *grpc, *cors, *shared_memory, *log_level,
        *log_format;
    bool allow_remote, json;
    int64_t max_body, body_memory, max_head, connections, connections_per_address, streams, threads;
    int64_t idle_us, head_us, refresh_us, order_us, drain_us;
    enum region_rule region_rule; /* of shared_memory */
};

extern const struct settings_program gateway_program;

/* What one row alone cannot tell: INVALID with a sentence. */
enum pen_status gateway_options_check(struct gateway_options *options, struct pen_error *reterr);

#endif
