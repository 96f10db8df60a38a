/*
 * penstock/backends.h - the backend of this process, models on it, and runs whose inputs and results are tensors (penstock/tensors.h).
 *
 * There is one current backend. Without a choice it is the one of the highest priority that works on this host (vulkan, xnnpack, reference), opened by the first call
 * that needs it. What a backend cannot run of a model, the ones of lower priority do, unless the options say strict. Programs that want several engines at once use
 * penstock/engine.h; pen_model_run takes its models, too.
 *
 * Units: microseconds. Threads: any, unless marked. The library never prints, and must not be used in a child after fork(2).
 */
#ifndef PENSTOCK_BACKENDS_H
#define PENSTOCK_BACKENDS_H

#include "penstock/engine.h"
#include "penstock/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- the backend ------------------------------------------------------------------------------------------------------------------ */

/*
 * Makes `name` ("vulkan", "xnnpack", "reference"; "auto" or NULL = by priority) the current backend, and opens it with its self-test where it is not open. Models stay
 * on the backend that they were opened on. PEN_ERR_UNSUPPORTED: it is not in this build, or does not work on this host and the sentence says why; the current one stays.
 */
enum pen_status pen_backend_set(const char *name, struct pen_error *reterr);

/* The current backend's name; opens one where there is none. NULL: none works. Lives as long as the process. */
const char *pen_backend_get(void);

/* PEN_OK once a backend can be used: opens one where there is none, else as pen_backend_set("auto"). */
enum pen_status pen_backend_ready(struct pen_error *reterr);

/*
 * The flags of the backends that are opened from now on (penstock/env.h); `backend` counts where pen_backend_set has not named one. The environment is copied. Without
 * this call, or with NULL, it is the defaults and the variables PENSTOCK_ENGINE_<FLAG> of the process. Backends that are open are closed; PEN_ERR_BUSY: models are open
 * on one, nothing was changed.
 */
enum pen_status pen_backend_configure(const struct pen_env *env, struct pen_error *reterr);

/* The current backend's engine: flags, device, provenance, models with sessions of the caller's own. Borrowed until the backend is removed. */
enum pen_status pen_backend_engine(struct pen_engine **ret_engine, struct pen_error *reterr);

/* Closes one backend and frees what it holds. PEN_ERR_BUSY: models are open on it. PEN_ERR_NOT_FOUND: it is not open. */
enum pen_status pen_backend_remove(const char *name, struct pen_error *reterr);

/* Ends the library's thread when it has made its calls, and closes all backends; the next call may begin anew. PEN_ERR_BUSY: models are open. Threads: one-at-a-time, no
 * other call of the library at that time. */
enum pen_status pen_shutdown(struct pen_error *reterr);

/* ---- models ----------------------------------------------------------------------------------------------------------------------- */

/* Loads a model (pen_model_load says which) onto the current backend. Gives *ret_model; close it with pen_model_close. */
enum pen_status pen_model_open(const char *path, struct pen_model **ret_model, struct pen_error *reterr);

/* Ends its runs, frees its sessions and the model. Its results that somebody holds keep their data. NULL is fine. Threads: any, when nobody else uses the model. */
void pen_model_close(struct pen_model *model);

/*
 * Makes a session ready for these shapes and executes it once on zeros, so that the first run is as fast as the others. inputs: views without data, [count] in the
 * model's order; NULL = the signature's, with 1 for each dynamic dim. Times may be NULL: preparing, and the run itself.
 */
enum pen_status pen_model_warm(struct pen_model *model, const struct pen_tensor *inputs, size_t count,
                               uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr);

/* For pen_model_run; zeroed = none of it. */
struct pen_run_options {
    /* Run it on the library's own thread, also where the backend computes on the CPU: the call returns at once, errors of the run come with the read. */
    bool background;
    const struct pen_stop *stop; /* cancels it, or ends it at its deadline; borrowed until the results are ready */
    /* Results stay in the memory of the device that makes them, where the model runs as a whole on one that can (Vulkan): reading copies them, and a later run takes
     * them from there. Elsewhere, as on CPUs, it says nothing: memory of the host is where they are made. */
    bool on_device;
};

/*
 * Runs the model once. inputs: [count] in the model's order, or by name where pen_tensor_new was told one; results count by position. They are read before the call
 * returns and stay the caller's. Writes [output_count] results, as many as the model has outputs (pen_model_outputs), in the innermost scope of this thread.
 *
 * On a CPU the results are there when the call returns. On a device that takes several runs (pen_session_window) they are pending: the call returns when the
 * device has the run. A model has as many runs on their way as it has sessions, at most one per CPU and at least four; the next run waits for the oldest of them.
 *
 * options: NULL = none. Errors: those of pen_session_run, PEN_ERR_INVALID for a wrong number of results, an input's own where it is a result of a failed run. Nothing is
 * made then, and ret_outputs is all NULL.
 */
enum pen_status pen_model_run(struct pen_model *model, struct pen_tensor_handle *const *inputs, size_t count,
                              const struct pen_run_options *options, struct pen_tensor_handle **ret_outputs,
                              size_t output_count, struct pen_error *reterr);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
