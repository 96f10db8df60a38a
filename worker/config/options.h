/*
 * options.h - the settings of penstock-worker, from flags, environment and file.
 *
 * Ownership: texts belong to the settings_store. Threads: one-at-a-time, at start.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "exit_codes.h"
#include "logline.h"
#include "penstock/engine.h"
#include "settings.h"

struct options {
    const struct settings_store *settings; /* what was given: the flags of the engine are there */
    struct setting_list flags;             /* NAME=VALUE */
    const char *broker, *models, *placement, *name, *mode, *log_level, *log_format;
    const char *key, *broker_key;
    const char *metrics; /* "none", or an address */
    const char *measure;
    const char *registry, *store, *exchange, *model_peers, *share_models;
    int64_t store_limit, transfers;
    struct setting_list model_choices, tags;
    int64_t slots, threads, decoders;
    int64_t memory_limit, memory_budget, idle_unload_us, fold_limit, queue_bytes, frame_limit, sequence_memory;
    int64_t heartbeat_us, liveness_us, drain_timeout_us, watchdog_us, spin_us, wake_slice_us, watch_us, denied_wait_us;
    bool allow_debug, strict_models, allow_empty, supervise;
};

extern const struct settings_program options_program;

/* The engine's environment: its flags, from wherever they were given, and what settings of the worker mean for them.
   UNSUPPORTED lists the backends that this build has. */
enum pen_status options_env(const struct options *options, uint32_t threads, uint64_t memory_bytes,
                            struct pen_env **ret_env, struct pen_error *reterr);
enum log_level options_log_level(const struct options *options);

#endif
