/**
 * @file penstock/admin.h
 * The public API of libpenstock for those who watch and steer a pool: lists, counters, models, labels, quarantine, traces, levels of logs.
 * penstock/client.h includes it. All of these ask the broker and wait for its answer at most `timeout_us`. Threads: any.
 */
#ifndef PENSTOCK_ADMIN_H
#define PENSTOCK_ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/dtype.h"
#include "penstock/session.h"
#include "penstock/status.h"
#include "penstock/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pen_explanation; /* penstock/client.h */

/** A tensor a model takes or gives. */
struct pen_signature {
    const char *name;
    enum pen_dtype dtype;
    uint32_t rank;
    int64_t dims[PEN_MAX_RANK]; /**< -1 = dynamic */
    bool batched;               /**< dims[0] is the batch */
    bool optional;              /**< may be left out */
    bool pictures; /**< takes files of pictures, too: STRING [rows], a JPEG, PNG or WebP in each element, or
                                     uint8 [bytes], one file; the worker decodes them */
};

/** Execution times a worker measured at warm-up. */
struct pen_warm_time {
    uint32_t batch;
    uint64_t cold_us; /**< first execution */
    uint64_t warm_us; /**< median of those after it */
};

/** One worker's copy of a model. */
struct pen_model_offer {
    const char *worker;
    const char *backend;
    const char *device;
    const char *placement; /**< which backend took which part */
    unsigned precision;    /**< enum pen_precision */
    uint32_t max_batch_size;
    bool ready;
    bool cacheable;
    uint64_t memory_bytes;
    size_t warm_count;
    const struct pen_warm_time *warm;
    bool measured;             /**< its error is known: the fields below */
    bool measures;             /**< it is not yet, and will be */
    double error_largest;      /**< relative, against the reference backend; infinity: no number says it */
    double error_mean;         /**< the same, on average */
    uint32_t error_inputs;     /**< sets of inputs that it was measured on */
    const char *error_source;  /**< "calibration", "seeded", "steps", "reference"; "" when not measured */
    bool error_repeatable;     /**< equal inputs gave equal bits */
    bool sequences;            /**< it keeps state: each job belongs to a sequence */
    uint64_t sequence_idle_us; /**< a sequence without a job for so long ends */
    uint32_t sequences_max;    /**< of the model, on this worker */
};

/** Which tensor of an ensemble, or of its steps, is which tensor of a step's model. */
struct pen_ensemble_link {
    const char *tensor; /**< of the step's model */
    const char *name;   /**< in the ensemble */
};

/** A step of an ensemble. */
struct pen_ensemble_step {
    const char *model;
    uint64_t version; /**< 0 = as a job without a version */
    size_t inputs_count;
    const struct pen_ensemble_link *inputs;
    size_t outputs_count;
    const struct pen_ensemble_link *outputs;
};

/** A name that a version carries. */
struct pen_version_label {
    const char *label;
    double share; /**< of the jobs that name neither version nor label, 0..1 */
};

/** A model of the pool. */
struct pen_model {
    const char *name;
    uint64_t version;
    const char *platform;   /**< "onnx", "tflite", "tfjs" */
    const char *preprocess; /**< JSON text of the model's input.preprocess, "" when it takes plain tensors */
    size_t inputs_count;
    const struct pen_signature *inputs;
    size_t outputs_count;
    const struct pen_signature *outputs;
    size_t labels_count;
    const char *const *labels;
    size_t offers_count;
    const struct pen_model_offer *const *offers;
    uint64_t queued;
    uint64_t running;
    uint64_t jobs_done;
    uint64_t jobs_failed;
    uint64_t cache_hits;
    size_t version_labels_count;
    const struct pen_version_label *version_labels;
    bool annotates;          /**< every worker that has it knows pen_job_options.top_k */
    uint64_t jobs_cancelled; /**< not among jobs_failed */
    uint32_t forms;          /**< in which workers offer it: more than 1 while they differ in inputs, outputs or batch
                                size; `inputs` and `outputs` are the newest form's */
    size_t steps_count;      /**< of an ensemble; else 0 */
    const struct pen_ensemble_step *steps;
    bool spread; /**< no worker has the whole ensemble; several have its steps, and its jobs run across them */
};

/** A model that a worker has on disk and does not serve as its files and config.json say now. */
struct pen_failed_model {
    const char *worker;
    const char *name;
    uint64_t version; /**< 0 = none was come to: its folder, its config.json or --model is wrong */
    enum pen_status status;
    const char *error;      /**< the worker's sentence */
    uint64_t since_unix_us; /**< when it said so first, by its clock */
    bool serving;           /**< what was loaded before serves on: a change was refused */
};

/** A list of models; everything in it lives until pen_client_models_free(). */
struct pen_model_list {
    size_t count;
    const struct pen_model *const *models;
    size_t failures_count; /**< at most 512, of all workers */
    const struct pen_failed_model *failures;
};

/** Asks the broker for its models. @param ret_list given. @return PEN_OK; UNAVAILABLE without an answer in time; NO_MEMORY. */
PEN_API enum pen_status pen_client_models(pen_client *client, int64_t timeout_us, struct pen_model_list **ret_list,
                                          struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_client_models_free(struct pen_model_list *list);

/** How far a model's answers are from the reference's on one worker, in the precision in which it serves the model. */
struct pen_offered_error {
    unsigned precision; /**< enum pen_precision */
    bool measured;      /**< it is known: the fields below */
    bool measures;      /**< it is not yet, and will be */
    double largest;     /**< relative; infinity: no number says it */
    double mean;        /**< the same, on average */
    uint32_t inputs;    /**< sets of inputs that it was measured on */
    const char *source; /**< "calibration", "seeded", "steps", "reference"; "" when not measured */
    bool repeatable;    /**< equal inputs gave equal bits */
};

/** A worker of the pool. */
struct pen_worker {
    const char *name;
    const char *host;
    const char *backend;
    const char *device;
    const char *state; /**< "ready", "draining", "suspect" */
    const char *software;
    uint32_t slots;
    uint32_t threads; /**< per slot */
    uint32_t jobs_running;
    uint64_t jobs_done;
    uint64_t jobs_failed;
    uint64_t rss_bytes;
    uint64_t age_us;
    uint64_t last_seen_us; /**< ago */
    uint64_t backlog_us;   /**< expected work it holds */
    size_t models_count;
    const char *const *models; /**< "name:version" */
    size_t flags_count;
    const char *const *flags; /**< "name=value": capabilities, ISA, library versions, self-tests */
    uint64_t jobs_cancelled;  /**< given up because nobody wanted them; not among jobs_failed */
    uint64_t results_bad;     /**< its results that were against the contract */
    size_t failures_count;    /**< models that it has and does not serve as they are now: those listed */
    const struct pen_failed_model *failures;
    uint64_t failures_all; /**< listed or not */
    const struct pen_offered_error
        *errors; /**< [models_count], in the order of `models`; NULL: the broker does not tell */
};

/** A list of workers; everything in it lives until pen_client_workers_free(). */
struct pen_worker_list {
    size_t count;
    const struct pen_worker *const *workers;
};

/** Asks the broker for its workers. @param ret_list given. @return as pen_client_models(). */
PEN_API enum pen_status pen_client_workers(pen_client *client, int64_t timeout_us, struct pen_worker_list **ret_list,
                                           struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_client_workers_free(struct pen_worker_list *list);

/** The broker's counters since its start, and its state now. */
struct pen_stats {
    const char *software;
    const char *cache_kind;  /**< "memory", "redis", "none" */
    const char *cache_state; /**< "ok", or why not */
    bool draining;
    uint64_t uptime_us;
    uint64_t jobs_admitted;
    uint64_t jobs_done;
    uint64_t jobs_failed;
    uint64_t jobs_rejected;
    uint64_t jobs_expired;
    uint64_t jobs_cancelled;
    uint64_t jobs_requeued;
    uint64_t jobs_coalesced;
    uint64_t results_duplicate;
    uint64_t cache_hits;
    uint64_t cache_misses;
    uint64_t cache_bytes;
    uint64_t cache_entries;
    uint64_t queued;
    uint64_t running;
    uint64_t clients;
    uint64_t workers;
    uint64_t workers_lost;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t replies_kept;
    uint64_t rss_bytes;
    uint64_t workers_lost_closed; /**< their connections ended */
    uint64_t workers_lost_frozen; /**< silent while their hosts lived */
    uint64_t workers_lost_cut;    /**< silent, and nothing was acknowledged */
    uint64_t workers_slow;
    uint64_t jobs_hedged, hedges_won;
    uint64_t quarantined, quarantine_refused;
};

/** Asks the broker for its counters. @param ret_stats given; free with pen_client_stats_free(). @return as pen_client_models(). */
PEN_API enum pen_status pen_client_stats(pen_client *client, int64_t timeout_us, struct pen_stats **ret_stats,
                                         struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_client_stats_free(struct pen_stats *stats);

/** What became of an order on one worker. */
struct pen_outcome {
    const char *worker;
    enum pen_status status;
    const char *error; /**< "" when it went well */
};

/** Outcomes of an order, one for each worker; lives until pen_outcomes_free(). */
struct pen_outcome_list {
    size_t count;
    const struct pen_outcome *outcomes;
};

/** Lets all workers load a model of their folder (again): "NAME" by its version_policy, "NAME:VERSION" that version. What serves goes
 *  on serving until the new one is warm, and when it cannot be loaded. @param ret_list given whenever workers were asked, also when all
 *  failed; free with pen_outcomes_free(); may be NULL. @return PEN_OK: one worker at least serves it; else what the first said;
 *  UNAVAILABLE: no worker, or no answer in time. */
PEN_API enum pen_status pen_client_model_load(pen_client *client, const char *model, int64_t timeout_us,
                                              struct pen_outcome_list **ret_list, struct pen_error *reterr);
/** Lets all workers take a model (or one version of it) out of service; jobs that have begun are finished. @return as
 *  pen_client_model_load(); NOT_FOUND: nobody serves it. */
PEN_API enum pen_status pen_client_model_unload(pen_client *client, const char *model, int64_t timeout_us,
                                                struct pen_outcome_list **ret_list, struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_outcomes_free(struct pen_outcome_list *list);

/** Names a version: jobs that name no version go to "stable" (without one, to the highest), a share of them to other labels.
 *  @param version 0 takes the label back. @param share of the jobs that name neither version nor label, 0..1. @return PEN_OK; INVALID;
 *  NOT_FOUND: no such label to take back; UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_model_label(pen_client *client, const char *model, const char *label,
                                               uint64_t version, double share, int64_t timeout_us,
                                               struct pen_error *reterr);

/** When a label leaves the version of pen_shadow again by itself. Limits that are 0 do not count. */
struct pen_shadow_guard {
    const char *label;   /**< such as "canary" */
    uint64_t back;       /**< the version that it moves to */
    double errors;       /**< share of the version's jobs that fail, 0..1 */
    double latency;      /**< mean time of the copies, relative to that of their originals */
    double disagreement; /**< share of answers that differ: another first class, or outputs that are not alike */
    uint32_t after;      /**< so many jobs must have ended before anything is judged; from 1 */
};

/** Shadow traffic: that share of the model's jobs is copied to the version, the answers are compared, and nobody gets
 *  those of the copies. @param share 0 ends it. @param guard NULL = no label moves by itself. @return PEN_OK; INVALID;
 *  NOT_FOUND: there is none to end; BUSY; UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_model_shadow(pen_client *client, const char *model, uint64_t version, double share,
                                                const struct pen_shadow_guard *guard, int64_t timeout_us,
                                                struct pen_error *reterr);

/** What came out of the model's shadow traffic. @param ret_json given: a JSON object (proto/PROTOCOL.md, verb `shadow`);
 *  free with pen_text_free(). @return PEN_OK; NOT_FOUND: there is none; UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_model_shadow_told(pen_client *client, const char *model, int64_t timeout_us,
                                                     char **ret_json, struct pen_error *reterr);

/** Lets the broker finish and leave, or only the worker of that name. @param worker NULL = the broker. @return PEN_OK: it has begun;
 *  NOT_FOUND: no such worker; UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_drain(pen_client *client, const char *worker, int64_t timeout_us,
                                         struct pen_error *reterr);

/** Cancels a detached job of one's own by the text of its id and the secret that it was submitted with, from any session of the
 *  tenant. @return as pen_client_cancel(); DENIED: that is not its secret. Threads: any. */
PEN_API enum pen_status pen_client_cancel_own(pen_client *client, const char *job_id, const char *secret,
                                              int64_t timeout_us, struct pen_error *reterr);

/** Cancels a job by the text of its id, also one of another session. @return PEN_OK: cancelled; NOT_FOUND: unknown or already
 *  answered; DENIED; INVALID: no job id; UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_cancel(pen_client *client, const char *job_id, int64_t timeout_us,
                                          struct pen_error *reterr);

/** Asks the broker to explain a job by the text of its id: one under way, or one of the last that ended, also of another session.
 *  @param ret_explanation given; free with pen_explanation_free(). @return PEN_OK; NOT_FOUND: unknown or forgotten; INVALID: no job
 *  id; UNAVAILABLE: no answer in time; NO_MEMORY. */
PEN_API enum pen_status pen_client_explain(pen_client *client, const char *job_id, int64_t timeout_us,
                                           struct pen_explanation **ret_explanation, struct pen_error *reterr);
/** NULL is fine. Not for those of pen_result_explanation(). */
PEN_API void pen_explanation_free(struct pen_explanation *explanation);

/** A job in quarantine: it was alone on a worker at the last of the deaths that are allowed. */
struct pen_quarantined {
    const char *job; /**< id */
    const char *model, *tenant;
    const char *workers; /**< "a, b, c": those that were lost with it */
    const char *inputs;  /**< "x u8 [1,28,28] 784 bytes" */
    uint64_t version, bytes, age_us;
    uint64_t refused; /**< equal jobs turned away since */
    uint32_t deaths;
    bool known; /**< its content is known: equal jobs are refused */
};

struct pen_quarantine {
    size_t count;
    const struct pen_quarantined *jobs;
};

/** Lists the jobs in quarantine, or the one of that id. @param job_id NULL = all. @param ret_quarantine given; free with
 *  pen_client_quarantine_free(). @return PEN_OK; NOT_FOUND; INVALID: no job id; UNAVAILABLE: no answer in time; NO_MEMORY. */
PEN_API enum pen_status pen_client_quarantine(pen_client *client, const char *job_id, int64_t timeout_us,
                                              struct pen_quarantine **ret_quarantine, struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_client_quarantine_free(struct pen_quarantine *quarantine);

/** Lets a job out of quarantine: equal ones may run again. @param job_id "all" = every one. @return PEN_OK; NOT_FOUND; INVALID: no job id;
 *  UNAVAILABLE: no answer in time. */
PEN_API enum pen_status pen_client_kick(pen_client *client, const char *job_id, int64_t timeout_us,
                                        struct pen_error *reterr);

/** What a tenant has used of a model in one hour, or in all hours that were added up. */
struct pen_usage_row {
    uint64_t hour_unix_s; /**< its beginning, seconds since 1970 */
    const char *tenant, *model;
    uint64_t version;
    uint64_t jobs; /**< whole jobs that ended: ok + failed + cancelled */
    uint64_t ok, failed, cancelled;
    uint64_t computed, cached, coalesced; /**< of ok; ensembles run by steps are in none of them */
    uint64_t device_us;                   /**< time of slots, by each job's share of its batch */
    uint64_t bytes_in, bytes_out;         /**< of admitted requests; of replies */
};

struct pen_usage {
    uint64_t broker;       /**< a number of the broker, another one at each start */
    uint64_t since_unix_s; /**< from here on the broker knows every hour; earlier ones are in its files (--usage-dir) */
    size_t count;
    const struct pen_usage_row *rows; /**< oldest first */
};

/** Asks the broker what tenants have used, hour by hour. Of several brokers each tells its own part: the sum is what was used.
 *  @param since_unix_s, until_unix_s seconds since 1970; 0 and UINT64_MAX: all. The hours that begin in between, and the one that
 *  since_unix_s lies in. @param ret_usage given; free with pen_client_usage_free(). @return PEN_OK; DENIED; UNAVAILABLE: no answer in
 *  time; NOT_FOUND: an older broker; NO_MEMORY. */
PEN_API enum pen_status pen_client_usage(pen_client *client, uint64_t since_unix_s, uint64_t until_unix_s,
                                         int64_t timeout_us, struct pen_usage **ret_usage, struct pen_error *reterr);
/** NULL is fine. */
PEN_API void pen_client_usage_free(struct pen_usage *usage);

/**
 * Asks the broker for the lives of jobs it has kept.
 * @param what a job's id, or "recent", "errors", "slow", "kept"; behind a blank the form: "json" (default), "chrome" (also Perfetto's),
 *        "otlp" (OpenTelemetry).
 * @param ret_text given: JSON text; free with pen_text_free(). @return PEN_OK; NOT_FOUND: not kept; INVALID; UNAVAILABLE.
 */
PEN_API enum pen_status pen_client_trace(pen_client *client, const char *what, int64_t timeout_us, char **ret_text,
                                         struct pen_error *reterr);

/**
 * Changes how much the pool logs, at once and until the next change or restart.
 * @param level "debug", "info", "warn", "error". @param whom "broker", "workers", a worker's name; NULL = all of them.
 * @param ret_text given: JSON of what is in force; free with pen_text_free(); may be NULL. @return PEN_OK; INVALID; NOT_FOUND; UNAVAILABLE.
 */
PEN_API enum pen_status pen_client_log_level(pen_client *client, const char *level, const char *whom,
                                             int64_t timeout_us, char **ret_text, struct pen_error *reterr);

/**
 * Asks the broker when jobs came: times, models and sizes, no payloads. It notes them from the first question on, until nobody has asked
 * for a minute.
 * @param since NULL or "" = begin; else `next` of the answer before, as text: the arrivals since then.
 * @param ret_text given: JSON {now_us, next, missed, arrivals: [[at_us, model, priority, rows, bytes, deadline_us], ...], models, unnamed}
 *        (proto/PROTOCOL.md, verb `arrivals`); free with pen_text_free(). @return PEN_OK; INVALID; NOT_FOUND: a broker that does not know the
 *        question; DENIED; UNAVAILABLE; NO_MEMORY.
 */
PEN_API enum pen_status pen_client_arrivals(pen_client *client, const char *since, int64_t timeout_us, char **ret_text,
                                            struct pen_error *reterr);

/** Frees a text that the library gave. NULL is fine. */
PEN_API void pen_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
