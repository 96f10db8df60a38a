/*
 * options.h - the broker's settings: one table gives flags, environment, config file and --help. Threads: one-at-a-time, at start.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "digest.h"
#include "inherited.h"
#include "logline.h"
#include "settings.h"

struct options {
    const char *listen_clients, *listen_workers;
    const char *bulk_clients, *bulk_workers; /* "none": bulk connections use the addresses above */
    bool allow_remote, http_preview;
    const char *key, *keys, *audit_log, *redis_password_file; /* files; "" = none */
    const char *redis_ca, *redis_certificate, *redis_key;     /* the same */
    int64_t redis_replicas;
    const char *usage_dir; /* "" = none */
    int64_t usage_every_us, usage_keep_us;
    const char *cache_text;
    int64_t cache_ttl_us, cache_deadline_us, cache_value_bytes;
    const char *cache_namespace;
    int64_t memory_limit; /* 0 = only the system's limits count */
    int64_t queue_limit, queue_bytes, max_job_bytes, max_frame_bytes, peer_bytes;
    int64_t heartbeat_us, liveness_us, grace_us, worker_wait_us, wake_wait_us, remember_us, restart_wait_us;
    int64_t replies_bytes, replies_age_us;
    int64_t bulk_from, sealed_from;
    const char *journal; /* "" = no detached jobs */
    int64_t journal_bytes, detached_ttl_us;
    const char *detached; /* where detached jobs are kept: auto, none, journal, redis://... */
    int64_t detached_lease_us, detached_bytes;
    int64_t max_attempts, quarantine_age_us;
    bool hedge;
    int64_t explain_jobs;
    bool refuse_late;
    struct setting_list tenant_weights;
    int64_t drain_delay_us, drain_timeout_us;
    const char *neighbours; /* "" = none */
    int64_t busy_jobs, busy_clients;
    int64_t spin_us, wake_slice_us, digest_first;
    const char *digest_text;
    const char *log_level_text, *log_format;
    int64_t ready_fd;
    int64_t trace_sample, trace_keep, trace_slow_us;
    const char *trace_otlp; /* "none", or http://host:port/path */
    const char *http;       /* "auto", an address, "none" */

    /* Set by options_load. Handed-over sockets (inherited.h) replace the addresses above. */
    struct inherited inherited;
    char inherited_clients[160], inherited_workers[160], inherited_http[160];
    struct cache_options cache;
    struct cache_options detached_redis; /* of kind CACHE_REDIS: the Redis that keeps detached jobs */
    enum digest_kind digest;
    enum log_level log_level;
};

/* Fills and checks everything; texts belong to *ret_store, which is given on success. */
enum pen_status options_load(int argc, char **argv, struct options *ret_options, enum settings_outcome *ret_outcome,
                             struct settings_store **ret_store, struct pen_error *reterr);

#endif
