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
    const char *broker, *models, *backend, *precision, *placement, *name, *mode, *log_level, *log_format;
    const char *key, *broker_key;
    const char *metrics; /* "none", or an address */
    struct setting_list model_choices, tags;
    int64_t slots, threads;
    int64_t memory_limit, memory_budget, fold_limit, queue_bytes, frame_limit, sequence_memory;
    int64_t heartbeat_us, liveness_us, drain_timeout_us, watchdog_us, spin_us, wake_slice_us, watch_us, denied_wait_us;
    bool allow_debug, strict_models, allow_empty, supervise;
    struct setting_list vk_devices;
    const char *vk_cache_dir, *vk_kernels, *vk_f16_range, *vk_f16_trial;
    bool vk_allow_software, vk_validate;
    const char *vk_in_flight;
};

extern const struct settings_program options_program;

/* Reads the engine's settings: precision, threads, strictness, checks. UNSUPPORTED lists the backends that this
   build has. */
enum pen_status options_engine(const struct options *options, uint32_t threads, uint64_t memory_bytes,
                               struct pen_engine_options *ret_engine, struct pen_error *reterr);
enum log_level options_log_level(const struct options *options);

#endif
