/**
 * @file penstock/client.h
 * The public API of libpenstock: submit inference jobs to a Penstock broker and get typed answers.
 *
 * A ::pen_client is one session with one broker. Any thread may submit; a blocking caller drives the socket itself, so a
 * job costs no thread change. Jobs come in three styles:
 *
 *  - blocking: pen_client_run()
 *  - future:   pen_client_submit(), then pen_job_wait() or pen_job_poll()
 *  - event loop: pen_client_submit() with a callback, pen_client_fd() in your poll set, pen_client_dispatch() when readable
 *
 * Every accepted job ends with exactly one ::pen_result: an answer or a typed error. A job with a deadline ends at the
 * deadline even when there is no broker; one without ends with PEN_ERR_UNAVAILABLE when the broker stays unreachable for
 * pen_client_options.unreachable_us. After a broker restart unanswered jobs are sent again under the same job id.
 *
 * Units: times are microseconds, sizes are bytes, tensors are C order and little-endian.
 * Ownership: what a function *gives* the caller frees with the named function; what it *borrows* must live for the stated time.
 * The library never prints, installs no signal handlers and must not be used in a child after fork(2).
 */
#ifndef PENSTOCK_CLIENT_H
#define PENSTOCK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/dtype.h"
#include "penstock/precision.h"
#include "penstock/session.h"
#include "penstock/status.h"
#include "penstock/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** "any", "f32", ...; "unknown" for a value this build does not know. Static text. Threads: any. */
PEN_API const char *pen_precision_name(unsigned precision);

/**
 * How to reach a broker. Fill with pen_client_options_init(), then change what you need; texts are borrowed until
 * pen_client_connect() returns.
 */
struct pen_client_options {
    size_t struct_bytes; /**< set by init: which fields this caller knows */
    const char *
        endpoint; /**< "tcp://host:port" or "ipc://path", default "tcp://127.0.0.1:5550"; several brokers separated by commas: one is
                               used, the others when it is lost or drains */
    const char *name;   /**< shown to people; default "client" */
    const char *tenant; /**< NULL = "default" */
    int64_t
        connect_timeout_us; /**< 0 (default): connect in the background; else wait this long for the broker's welcome */
    int64_t unreachable_us; /**< jobs end with UNAVAILABLE after this long without a broker; default 10 s, 0 = never */
    uint64_t grace_us;      /**< how long the broker keeps our jobs when the connection is lost; 0 = its default */
    uint32_t jobs_max;      /**< unanswered jobs before submit says BUSY; default 4096 */
    uint64_t bytes_max;     /**< payload bytes of unanswered jobs before submit says BUSY; default 1 GiB */
    uint64_t frame_bytes_max; /**< largest tensor accepted from the broker; default 256 MiB */
    uint32_t
        spin_us; /**< busy-wait at most this long for an answer, while that pays and with several CPUs; default 50, 0 = never */
    const char *key_file;   /**< of `penstock keygen`; with broker_key: encrypted and authenticated; NULL = plain */
    const char *broker_key; /**< the broker's public key, 64 hex digits */
    bool tell_drain; /**< a job that the only broker refuses because it is about to end (a restart) is UNAVAILABLE at
                          once; default: it waits for the broker that comes in its place, for unreachable_us */
    bool stays; /**< stays with a broker of its endpoint although that is busy and names a less busy one; for who asks
                     about, or steers, just that broker. Default: it goes there, and its jobs with it */
};

/** Sets every field to its default. @param options the caller's. @param struct_bytes sizeof *options. Threads: any. */
PEN_API void pen_client_options_init(struct pen_client_options *options, size_t struct_bytes);

/**
 * Opens a session. Starts one housekeeping thread and ZeroMQ's own I/O thread.
 * @param options NULL for the defaults.
 * @param ret_client given; free with pen_client_free().
 * @return PEN_OK; INVALID for a malformed endpoint; UNAVAILABLE when connect_timeout_us ran out; the broker's reason when it
 *         refuses (VERSION, DENIED, ...); NO_MEMORY, also where too few files may still be opened.
 */
PEN_API enum pen_status pen_client_connect(const struct pen_client_options *options, pen_client **ret_client,
                                           struct pen_error *reterr);

/**
 * Waits until the broker has welcomed this session.
 * @return PEN_OK; UNAVAILABLE after `timeout_us`; the broker's reason when it refuses. Threads: any.
 */
PEN_API enum pen_status pen_client_wait_ready(pen_client *client, int64_t timeout_us, struct pen_error *reterr);

/**
 * Ends the session: unanswered jobs end with PEN_ERR_CANCELLED here and are cancelled at the broker. Job handles and results
 * stay valid and must still be freed. No other call on this client may be running or follow. NULL is fine.
 */
PEN_API void pen_client_free(pen_client *client);

/** Kind of a parameter's value. */
enum pen_parameter_kind { PEN_PARAMETER_TEXT, PEN_PARAMETER_INTEGER, PEN_PARAMETER_NUMBER, PEN_PARAMETER_FLAG };

/** A named value that travels with a job to the model; part of the result cache's key. */
struct pen_parameter {
    const char *name; /**< at most 255 bytes */
    enum pen_parameter_kind kind;
    union {
        const char *text;
        int64_t integer;
        double number;
        bool flag;
    } value;
};

/** Bits of pen_job_options.flags. */
enum pen_job_flag {
    PEN_JOB_NO_CACHE = 1, /**< neither read from nor stored in the result cache, nor joined with an equal job */
    PEN_JOB_BORROW = 2,   /**< inputs' data are borrowed, not copied, until `release` is called */
    PEN_JOB_EXPLAIN = 4,  /**< the result says why it ran where it did: pen_result_explanation() */
    PEN_JOB_TRACE = 8,    /**< the broker keeps the job's life for pen_client_trace() */
    PEN_JOB_LAYERS = 16,  /**< PEN_JOB_TRACE, and the worker measures its layers; implies PEN_JOB_NO_CACHE */
    PEN_JOB_DEBUG =
        512, /**< the job runs alone, in debug mode, on a worker that allows it (--allow-debug): the result has a
                               log of its operators (pen_result_debug_log()). Implies PEN_JOB_NO_CACHE. DENIED: the key
                               lacks the role admin */
    PEN_JOB_ORDERED =
        64, /**< its end is told (wait, poll, callback) only after those of all earlier jobs of this client
                               with this flag, whatever thread submitted them and however often the connection was lost */
    PEN_JOB_SEQUENCE_START = 128, /**< with sequence_id: the first job of the sequence; the model's state begins anew */
    PEN_JOB_SEQUENCE_END = 256,   /**< with sequence_id: the last one; the worker then drops the state */
    PEN_JOB_DETACHED = 32 /**< the job ends for this client when the broker has it on disk: PEN_OK without outputs. It
                               runs without us; its result is fetched by its id (pen_job_id()), from any session of the
                               tenant. Neither cached nor joined. UNSUPPORTED: the broker keeps no journal */
};

/** Called on the thread inside pen_client_dispatch() when a job has ended. `result` is given: free it with pen_result_free(). */
typedef void (*pen_job_callback)(pen_job *job, pen_result *result, void *arg);

/** One job. Fill with pen_job_options_init(). Everything pointed to is borrowed until the call that takes it returns, except as
 *  PEN_JOB_BORROW says. */
struct pen_job_options {
    size_t struct_bytes;             /**< set by init */
    const char *model;               /**< required */
    uint64_t version;                /**< 0 = highest ready version */
    const struct pen_tensor *inputs; /**< at most 64, unique names */
    size_t inputs_count;
    const char *const *outputs; /**< names wanted; NULL = all */
    size_t outputs_count;
    const struct pen_parameter *parameters; /**< at most 64 */
    size_t parameters_count;
    const char *const *tags; /**< the worker must carry all of them; at most 16 */
    size_t tags_count;
    uint64_t deadline_us;         /**< from now; 0 = none */
    uint8_t priority;             /**< 0 = the model's default, 1 = most urgent */
    enum pen_precision precision; /**< class demanded */
    const char *backend;          /**< NULL = any */
    unsigned flags;               /**< enum pen_job_flag */
    uint64_t sequence_id;       /**< models that keep state between jobs: jobs of one id, a number of this client's own
                                       choice, run one after the other in the order of their submission and on one
                                       worker. A job that does not end with PEN_OK ends its sequence; so do the model's
                                       idle time (TIMEOUT), and the loss (WORKER_LOST), drain or unloading (UNAVAILABLE)
                                       of its worker. Jobs that come after that get that status until one begins anew.
                                       Each job tells the broker which one it follows, so none is ever skipped unnoticed:
                                       after a job that was lost, cancelled or too late the next one ends CANCELLED.
                                       0 = none */
    const char *traceparent;    /**< W3C trace context, carried on to the worker; with the sampled flag the broker
                                       keeps the job's life; NULL = none */
    void (*release)(void *arg); /**< with PEN_JOB_BORROW: inputs are no longer used; called once, from any
                                        thread; it must not call into this library */
    void *release_arg;
    pen_job_callback callback; /**< NULL: the future style */
    void *callback_arg;
    const char
        *version_label; /**< instead of a version: the one that carries this label, such as "canary"; NULL = none. A
                           broker of protocol 1.0 would pass it over: the job ends UNSUPPORTED there, as does the first
                           and the last one of a sequence */
    uint64_t
        detached_ttl_us; /**< with PEN_JOB_DETACHED: how long job and result are kept; 0 = as long as the broker does */
    const char *detached; /**< id of a detached job: this job ends with that one's result, as soon as it is there;
                                   model and inputs are left out. NOT_FOUND: it never came, or is too old */
    bool
        detached_state; /**< with `detached`: this job ends at once with what becomes of that one, pen_result_info's detached_*
                              fields, and without its result */
    const char *detached_secret; /**< with PEN_JOB_DETACHED: who knows this text of 1 to 128 bytes may cancel the job
                                      (pen_client_cancel_own()), whatever key it has; the broker gets a digest of it;
                                      NULL = only the key that submits */
    uint32_t
        top_k; /**< of classifiers: the result tells the so many best classes of each row (pen_result_annotation()),
                         at most 1000; 0 = none. Workers that do not know it leave them out (pen_model.annotates) */
    const char *const *needs; /**< flags that the worker must have, as `penstock workers --json` lists them: "NAME" (it
                                      is on: not off, no, none, false, 0 or unavailable) or "NAME=VALUE"; at most 16 */
    size_t needs_count;
    double max_relative_error; /**< only where the measured error of the model's answers is within it; with precision
                                    "any" in whatever precision keeps it; 0 = none. UNSUPPORTED: nobody keeps it, and the
                                    sentence names the best offer (proto/PROTOCOL.md, "Precision") */
    bool
        f32_exact; /**< with precision f32: alone in its batch, where equal inputs were found to give equal bits. Answers
                         with one model, backend, device, library, isa and build then have equal bits for equal inputs */
};

/** Sets every field to its default. @param struct_bytes sizeof *options. Threads: any. */
PEN_API void pen_job_options_init(struct pen_job_options *options, size_t struct_bytes);

/**
 * Sets precision, max_relative_error and f32_exact from a text: "any", "f32" (a class), "f32-exact" or
 * "max_relative_error=1e-2". @return PEN_OK; INVALID with the list of forms, and nothing is set. Threads: any.
 */
PEN_API enum pen_status pen_job_options_precision(struct pen_job_options *options, const char *text,
                                                  struct pen_error *reterr);

/**
 * Submits and waits for the end. The inputs are borrowed until the call returns and are not copied when large.
 * @param ret_result given on PEN_OK only; free with pen_result_free().
 * @return the job's status: PEN_OK, or what submit or the pool says, with the sentence in `reterr`. Threads: any.
 */
PEN_API enum pen_status pen_client_run(pen_client *client, const struct pen_job_options *options,
                                       pen_result **ret_result, struct pen_error *reterr);

/**
 * Submits and returns at once. Inputs are copied unless PEN_JOB_BORROW is set; `release` is not called when submit fails.
 * @param ret_job given; free with pen_job_free(). May be NULL when there is a callback.
 * @return PEN_OK: the job is accepted and will end; INVALID, SHAPE, TOO_LARGE: malformed, nothing happened; BUSY: a limit of this
 *         client is reached; NO_MEMORY; the broker's reason when it has refused this session. Threads: any.
 */
PEN_API enum pen_status pen_client_submit(pen_client *client, const struct pen_job_options *options, pen_job **ret_job,
                                          struct pen_error *reterr);

/** Most jobs of one pen_client_submit_many(). */
#define PEN_SUBMIT_MANY_MAX 4096

/**
 * Submits several jobs at once: all of them or none. They leave behind each other, so that the broker can make batches of those that belong
 * together. As pen_client_submit() otherwise.
 * @param options [count], one per job, all of the same struct_bytes.
 * @param ret_jobs [count], given; free each with pen_job_free(). May be NULL when every job has a callback.
 * @return PEN_OK: all are accepted; else none is, and the sentence says which one is at fault. Threads: any.
 */
PEN_API enum pen_status pen_client_submit_many(pen_client *client, const struct pen_job_options *options, size_t count,
                                               pen_job **ret_jobs, struct pen_error *reterr);

/**
 * Waits for the job's end. Not for jobs with a callback.
 * @param ret_result given when the job has ended, well or not: see pen_result_status(). A second wait after that gives INVALID.
 * @return PEN_OK: ended; PEN_ERR_TIMEOUT: still under way after `timeout_us`. Threads: any; one waiter per job.
 */
PEN_API enum pen_status pen_job_wait(pen_job *job, int64_t timeout_us, pen_result **ret_result,
                                     struct pen_error *reterr);

/** True when the job has ended (pen_job_wait() then returns at once). Never blocks; moves the session along. Threads: any. */
PEN_API bool pen_job_poll(pen_job *job);

/** Asks the pool to stop the job. It still ends with one result: CANCELLED, or its real one when that came first. Threads: any. */
PEN_API void pen_job_cancel(pen_job *job);

/** Bytes that pen_job_id() needs. */
#define PEN_JOB_ID_BYTES 40

/** Writes the id that logs, `penstock cancel` and the broker use, and returns `text`. Threads: any. */
PEN_API const char *pen_job_id(const pen_job *job, char text[PEN_JOB_ID_BYTES]);

/** Why a job waits before it can run. */
enum pen_hold_reason {
    PEN_HOLD_NONE,     /**< the broker has said nothing: the job runs as soon as a worker has time */
    PEN_HOLD_LOADING,  /**< no worker has its model in memory: one loads it */
    PEN_HOLD_NO_WORKER /**< no worker is connected that may run it: the broker holds it until one comes */
};

/** What the broker said when it took a job whose model was not ready. */
struct pen_hold {
    enum pen_hold_reason reason;
    uint64_t expect_us; /**< expected wait from then on, by what it took last time; 0 = not known */
    uint64_t told_us;   /**< how long ago that was said */
};

/** True when the broker has said that the job waits for its model, and why; false: `ret_hold` is all zero. It is no
 *  error, and no promise: the job goes on by itself, within its deadline. Moves the session along, like
 *  pen_job_poll(). @param struct_bytes sizeof *ret_hold. Threads: any. */
PEN_API bool pen_job_hold(pen_job *job, struct pen_hold *ret_hold, size_t struct_bytes);

/** Frees a handle that pen_client_submit() gave; a job still under way is cancelled. NULL is fine. Its callback, if any, is
 *  then not called. The `job` a callback sees needs no freeing of its own. */
PEN_API void pen_job_free(pen_job *job);

/**
 * A file descriptor that is readable while callbacks wait for pen_client_dispatch(). Only poll it; it belongs to the client.
 * From this call on the housekeeping thread reads the socket at once instead of leaving it to blocking callers.
 * @return the descriptor, or -1 without resources. Threads: any.
 */
PEN_API int pen_client_fd(pen_client *client);

/**
 * The same for a loop that moves the session itself: no thread of the library stands between the socket and the loop, which saves two changes of threads a
 * job. It is readable when pen_client_dispatch(client, 0) has something to do, be it only the session's own traffic; a loop calls that soon, for nothing else
 * reads the socket meanwhile but every 20 ms. Use one of the two descriptors, not both.
 * @return the descriptor, or -1 without resources. Threads: any.
 */
PEN_API int pen_client_loop_fd(pen_client *client);

/**
 * For the loop of pen_client_loop_fd() that submits many jobs before it sleeps: while it is busy, a submit does not look whether messages have come, which
 * saves system calls; the end of it looks once. Jobs are sent at once all the same. The loop ends it before it sleeps on the descriptor.
 * Threads: the loop's.
 */
PEN_API void pen_client_loop_busy(pen_client *client, bool busy);

/**
 * Calls the callbacks of ended jobs on this thread. Callbacks may submit and cancel, and free jobs, but not free the client.
 * @param timeout_us 0: only those ready now; else waits for the first. @return how many were called. Threads: any.
 */
PEN_API int pen_client_dispatch(pen_client *client, int64_t timeout_us);

/** Where a result comes from and what it cost. Texts live as long as the result; "" when unknown. */
struct pen_result_info {
    const char *model;               /**< as served */
    uint64_t version;                /**< of the model */
    const char *backend;             /**< "xnnpack", "reference", "vulkan" */
    const char *device;              /**< what it ran on */
    const char *worker;              /**< who ran it */
    const char *library;             /**< library and ISA behind the backend */
    const char *batch_reason;        /**< why its batch closed: "full", "idle", "delay", "deadline", "single" */
    unsigned precision;              /**< enum pen_precision */
    bool cached;                     /**< from the result cache */
    uint32_t batch_size;             /**< jobs in its batch */
    uint32_t attempts;               /**< 1: the first worker answered */
    uint64_t queue_us;               /**< admitted -> dispatched */
    uint64_t compute_us;             /**< in the engine, preprocessing included */
    uint64_t worker_us;              /**< on the worker */
    uint64_t total_us;               /**< admitted -> reply leaves the broker */
    uint64_t retry_after_us;         /**< hint with BUSY and UNAVAILABLE; 0 = none */
    uint64_t round_trip_us;          /**< submitted -> received, measured here */
    const char *detached_state;      /**< of an answer to detached_state: "waiting", "running", "done"; else "" */
    enum pen_status detached_status; /**< of a detached job that is done */
    uint32_t detached_attempts;      /**< brokers, or runs, that have begun it */
    uint64_t detached_age_us;        /**< since it was accepted */
    uint64_t detached_left_us;       /**< until it is forgotten */
    uint64_t decode_us;              /**< decoding the job's pictures on the worker; 0 = it brought none */
    const char *isa;                 /**< instruction set its kernels were chosen for: "avx512" */
    const char *build;               /**< of the engine that computed it */
    uint64_t age_us;                 /**< with cached: since it was stored */
    bool measured;                   /**< the fields below are known */
    double error_largest;     /**< relative error of this model there and in this precision, as it was measured */
    double error_mean;        /**< the same, on average */
    uint32_t error_inputs;    /**< sets of inputs that it was measured on */
    const char *error_source; /**< "calibration", "seeded", "reference": what they were; "" when not measured */
    bool error_repeatable;    /**< equal inputs gave equal bits */
};

/** PEN_OK, or why the job failed. Threads: any. */
PEN_API enum pen_status pen_result_status(const pen_result *result);
/** One sentence when the status is not PEN_OK, else "". Lives as long as the result. */
PEN_API const char *pen_result_error(const pen_result *result);
/** Never NULL; lives as long as the result. */
PEN_API const struct pen_result_info *pen_result_info(const pen_result *result);
/** Number of output tensors; 0 when the job failed. */
PEN_API size_t pen_result_outputs(const pen_result *result);
/** Output `index`; NULL beyond the last. The data lie in the received message: no copy, valid until pen_result_free(). Data are
 *  not aligned beyond one byte in general: copy elements out with memcpy(3) where that matters. */
PEN_API const struct pen_tensor *pen_result_output(const pen_result *result, size_t index);
/** The output of that name, or NULL. Same lifetime. */
PEN_API const struct pen_tensor *pen_result_find(const pen_result *result, const char *name);
/** A class of a classifier. */
struct pen_class {
    uint32_t index;   /**< of the output's numbers of that row, from 0 */
    float score;      /**< 0..1: what the model gives when it lies there, else the softmax of the row */
    const char *name; /**< "" when the model does not say; at most 256 bytes */
};

/** What the worker read out of one row of an output (pen_job_options.top_k). Fields are added at the end only. */
struct pen_annotation {
    const char *output; /**< name of the output; it need not be one that was asked for */
    uint32_t row;       /**< of the output's first dimension, from 0 */
    size_t classes_count;
    const struct pen_class
        *classes; /**< [classes_count], best first: as many in every row, at most top_k; fewer where a
                                          result's 1000 classes or 32 KiB are used up */
};

/** Number of annotations: one per row of each classifying output; 0 when top_k was 0, the output is no classifier's, or the
 *  worker does not know top_k. */
PEN_API size_t pen_result_annotations(const pen_result *result);
/** Annotation `index` in the order of outputs and rows, or NULL beyond the last. Lives as long as the result. */
PEN_API const struct pen_annotation *pen_result_annotation(const pen_result *result, size_t index);

/** Number of texts the worker sent for the parameter "labels" of the job: the older form of top_k. */
PEN_API size_t pen_result_labels(const pen_result *result);
/** Label `index`, as "0.93 nine", or NULL. Lives as long as the result. */
PEN_API const char *pen_result_label(const pen_result *result, size_t index);

/** A worker that was looked at for a job. */
struct pen_candidate {
    const char *worker;
    const char *backend;
    uint64_t backlog_us;  /**< expected work it held, per slot */
    uint64_t expect_us;   /**< expected execution of the batch there */
    uint64_t transfer_us; /**< expected time to get the inputs there */
    bool credit;          /**< it could be given work at that moment */
    bool chosen;
};

/** A step of an ensemble that no worker had whole, so that its steps ran as jobs of their own. */
struct pen_explained_step {
    uint32_t number; /**< place in config.json, from 1 */
    const char *model;
    uint64_t version;
    const char *state; /**< "waits" (for other steps), "queued", "running", "done", "failed", "stopped" */
    const char *worker;
    const char *backend;
    const char *batch_reason;
    uint32_t batch_jobs;
    uint32_t attempts;
    uint64_t queue_us; /**< its inputs were there -> dispatched */
    uint64_t compute_us;
    uint64_t total_us; /**< its inputs were there -> its result came */
};

/** Why a job ran where and with whom it did, why it waits, or why it was refused. Sentences are "" where they do not apply. */
struct pen_explanation {
    const char *job;
    const char *model;
    uint64_t version;
    const char *state; /**< "lookup", "queued", "following", "running", "done", "failed", "refused" */
    const char *tenant;
    uint32_t priority;
    const char *worker;
    const char *backend;
    const char *why_worker;
    const char *why_batch;
    const char *why_not; /**< why it waits, failed, was refused */
    size_t candidates_count;
    const struct pen_candidate *candidates; /**< the chosen one first, then the best others */
    uint32_t capable;                       /**< workers that could run it */
    const char *batch_reason;
    uint32_t batch_jobs;
    uint32_t batch_rows;
    uint64_t queue_us;
    uint64_t expect_us;  /**< forecast of the execution */
    uint64_t compute_us; /**< what it took */
    uint64_t total_us;
    uint32_t attempts;
    enum pen_status status; /**< of a job that has ended */
    size_t steps_count;
    const struct pen_explained_step *steps;
};

/** The explanation that came with the result (PEN_JOB_EXPLAIN); NULL without one: not asked for, failed, or answered from the
 *  cache. Lives as long as the result. */
PEN_API const struct pen_explanation *pen_result_explanation(const pen_result *result);
/** With PEN_JOB_DEBUG, also of a job that failed in its run: a line per operator, then the first NaN or infinity, the first value
 *  beyond f16 and the first deviation from the reference; at most 40 KiB. "" without one. Lives as long as the result. */
PEN_API const char *pen_result_debug_log(const pen_result *result);
/** Frees the result and the outputs borrowed from it. NULL is fine. */
PEN_API void pen_result_free(pen_result *result);

/** What this session has seen; for tests and monitoring. */
struct pen_client_counters {
    uint64_t jobs_submitted;
    uint64_t jobs_ended;
    uint64_t results_duplicate; /**< results for jobs that had ended */
    uint64_t messages_bad;      /**< malformed messages ignored */
    uint64_t connections;       /**< sockets opened */
    uint64_t jobs_resent;
    uint64_t jobs_pending; /**< unanswered now */
    uint64_t busy_waits;   /**< waits for answers that were begun awake (spin_us) */
    uint64_t redirects;    /**< times that a broker sent this client to another one, and it went */
};

/** Copies the counters out. @param struct_bytes sizeof *ret_counters. Threads: any. */
PEN_API void pen_client_counters(pen_client *client, struct pen_client_counters *ret_counters, size_t struct_bytes);

/** "0.1.0", the version of the library at run time. Static text. */
PEN_API const char *pen_client_version(void);

#ifdef __cplusplus
}
#endif

#include "penstock/admin.h"
#include "penstock/short.h"

#endif
