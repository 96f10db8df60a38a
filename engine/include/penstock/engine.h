/*
 * penstock/engine.h - load a model, choose a backend, warm it up, run it.
 *
 *     pen_engine (flags, open backends)  ->  pen_model (immutable, shared)  ->  pen_session (one per compute slot)
 *
 * The engine knows nothing of networks. It never prints. Sources of formats and formulas: engine/README.md.
 */
#ifndef PENSTOCK_ENGINE_H
#define PENSTOCK_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/debug.h"
#include "penstock/env.h"
#include "penstock/explain.h"
#include "penstock/precision.h"
#include "penstock/status.h"
#include "penstock/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* part of the public interface of libpenstock-engine */
#endif

struct pen_engine;
struct pen_model;
struct pen_session;

/* "any", "f32", "f16_storage" ... */
const char *pen_engine_precision_name(enum pen_precision precision);
/* Its inverse: what some backend of this build and host computes in, else INVALID (no such name) or UNSUPPORTED with the list of what there is. A backend that
 * the options name is not looked at: it answers when it is opened. */
struct pen_engine_options;
enum pen_status pen_engine_precision_find(const struct pen_engine_options *options, const char *name,
                                          enum pen_precision *ret_precision, struct pen_error *reterr);

/* ---- engine: environment and flags ------------------------------------------------------------------------------------------------ */

enum pen_upload { PEN_UPLOAD_AUTO, PEN_UPLOAD_OFF, PEN_UPLOAD_ALWAYS };
enum pen_host_import { PEN_HOST_IMPORT_AUTO, PEN_HOST_IMPORT_OFF };
enum pen_vk_layout { PEN_VK_LAYOUT_NHWC, PEN_VK_LAYOUT_GRAPH };

/* For the vulkan backend; zeroed = a hardware device chosen by score, no cache on disk. */
struct pen_vulkan_options {
    const char *device; /* auto, an index, a uuid or a part of the name; NULL = auto */
    const char *const *
        beside; /* further devices, named alike: sessions are spread over all; one that does not open fails pen_engine_new */
    size_t beside_count;
    bool allow_software;   /* devices that compute on the CPU count too: for tests */
    const char *cache_dir; /* compiled pipelines are kept here between processes; NULL = nowhere */
    const char *
        kernels; /* "auto" (by device, shape and what was tuned), "simple", "tiled", "gemv", "split", "cm", "cm2"; NULL = auto */
    const char
        *conv; /* the same for convolutions alone: "auto" (as `kernels` says), "direct", "gemm", "cm"; NULL = auto */
    enum pen_vk_layout layout;
    uint32_t nodes_per_submit; /* dispatches and copies a queue gets at once; 0 = 256 */
    uint64_t pool_trim_bytes;  /* device memory that is kept when it is freed */
    const char
        *f16_range; /* weights that f16 cannot hold: "keep" their layers in f32, or "refuse" the model; NULL = keep */
    const char
        *f16_trial; /* "on": layers whose rounding to f16 moves the outputs too far are found by trial and kept in f32;
                              "off": every float as f16; NULL = on */
    uint32_t
        in_flight; /* runs of one session on the device at once, at most 3; 0 = 2, on a software device 1. Each has its own staging memory */
    enum pen_upload upload_queue;     /* inputs of runs go to the device through a queue of its own for copies */
    enum pen_host_import host_import; /* large values cross in the engine's own memory where the device can use it */
    bool validate;                    /* debug: the Khronos validation layer; its messages are errors */
};

enum pen_mode { PEN_MODE_DEFAULT, PEN_MODE_DEBUG, PEN_MODE_PROD };
enum pen_check { PEN_CHECK_OFF, PEN_CHECK_WARN, PEN_CHECK_FAIL };
enum pen_pin { PEN_PIN_OFF, PEN_PIN_CORES };
enum pen_isa {
    PEN_ISA_ANY,
    PEN_ISA_PLAIN,
    PEN_ISA_AVX2,
    PEN_ISA_AVX512,
    PEN_ISA_AVX512VNNI,
    PEN_ISA_AVX512BF16,
    PEN_ISA_AMX
};
enum pen_warmup { PEN_WARMUP_NONE, PEN_WARMUP_COMPILE, PEN_WARMUP_EXECUTE };

/* The typed form of the flags (penstock/flags.def has one row for each field, with its meaning). */
struct pen_engine_options {
    const char *backend;          /* "auto" (highest priority that opens), or a name; NULL = "auto" */
    enum pen_precision precision; /* ANY = f32 */
    uint32_t threads;             /* of one session; 0 = 1 */
    bool strict; /* every node on `backend`, else loading fails with the list of nodes it cannot take */
    enum pen_pin pin;
    enum pen_isa cpu_isa_max; /* of the engine's own kernels, for all engines of the process */
    bool
        measure_kernels; /* kernels that compete for a node on the CPU are timed at the warm-up, and the quickest runs */
    bool
        weigh_crossings; /* parts of a model whose way to a device costs more than they cost on the CPU stay there; with measure_kernels */
    bool cpu_forward; /* small operators at the start of a graph run on the CPU though a device could */
    uint32_t cpu_forward_max_elems;
    enum pen_mode mode;             /* DEBUG: runs leave a log of their nodes (penstock/debug.h) */
    enum pen_check check_numerics;  /* NaN and infinity are found at the node that makes them */
    enum pen_check f16_range_check; /* values beyond f16, likewise */
    enum pen_warmup warmup;
    bool profile_nodes; /* profiles have a row per node; runs on vulkan get slower */
    /* Every node of every backend runs on reference, too; the first that deviates ends the run, by name. */
    bool compare_reference;
    uint64_t budget_bytes; /* cap on one model's file, constants and session memory; 0 = the defaults of README.md */
    /* Cap on what is computed from constants at the load, beside eight times the model's file; the rest is computed at each run. 0 = 256 MiB. */
    uint64_t fold_bytes;
    bool keep_measured;      /* results of measurements are read and kept in files beside the models */
    bool optimise;           /* graph passes; pen_engine_options_init sets true */
    const char *skip_passes; /* names of graph passes to leave out, separated by commas; NULL = none */
    struct pen_explain
        *explain; /* choices are told here (penstock/explain.h), until pen_engine_free; NULL = nowhere. No flag */
    struct pen_vulkan_options vulkan; /* strings are borrowed for the call */
    const char *backend_options;      /* "xnnpack.joins=off,...": options of backends (pen_backend_info); NULL = none */
};
void pen_engine_options_init(struct pen_engine_options *options); /* the defaults of the flags */
/* The typed form of an environment. Its texts live until the next change. */
const struct pen_engine_options *pen_env_options(const struct pen_env *env);

/* Opens the chosen backend (and reference behind it for fallback unless strict) and self-tests it. Gives *ret_engine. Threads: one-at-a-time per engine for
 * loading; models and sessions as stated below. */
enum pen_status pen_engine_new(const struct pen_engine_options *options, struct pen_engine **ret_engine,
                               struct pen_error *reterr);
/* The same from an environment, which may be freed or changed afterwards: the engine has its own copy. Flags that contradict each other are INVALID. */
enum pen_status pen_engine_open(const struct pen_env *env, struct pen_engine **ret_engine, struct pen_error *reterr);
/*
 * Changes a flag of the engine as pen_env_set does, and opens its backends anew. Until the first model is loaded; from then on it is INVALID with a sentence. When
 * it fails the engine is as it was. Threads: one-at-a-time per engine.
 */
enum pen_status pen_engine_set(struct pen_engine *engine, const char *name, const char *value, enum pen_origin origin,
                               const char *where, struct pen_error *reterr);
void pen_engine_free(struct pen_engine *engine); /* after its models; NULL is fine */

/* Flags and facts in effect. Borrowed until the engine is freed, or a flag of it is set. */
const struct pen_flag *pen_engine_flags(const struct pen_engine *engine, size_t *ret_count);
const char *pen_engine_backend(const struct pen_engine *engine); /* the chosen one */
bool pen_engine_on_device(const struct pen_engine *engine); /* the backend computes on a device of its own: a GPU */
const char *pen_engine_device(const struct pen_engine *engine);
const char *pen_engine_library(const struct pen_engine *engine); /* provenance: "xnnpack-2022 avx512" */
enum pen_precision pen_engine_precision(const struct pen_engine *engine);
/* Kernels that its backends have compiled since they were opened (Vulkan's pipelines; 0 elsewhere). Once all that is going to be run has been run, it stands
 * still. Threads: any. */
uint64_t pen_engine_compiled(const struct pen_engine *engine);

/* What this build holds and this host can do, without opening anything: for `penstock-engine info`. Returns the number; fills up to `room`. */
struct pen_backend_option {
    const char *name;
    const char *choices; /* "off|on"; NULL: a number from `least` to `most` */
    uint32_t least, most;
    const char *value;   /* where nobody says */
    const char *meaning; /* a sentence without a full stop */
};

struct pen_backend_info {
    const char *name;
    int priority;
    bool available;
    char reason[320], device[128], library[96];
    uint32_t precisions;                      /* bit 1u << enum pen_precision */
    const struct pen_backend_option *options; /* ended by a row without a name; NULL = none */
};
/* options: what may be opened (software devices); NULL = the defaults. */
size_t pen_backends(const struct pen_engine_options *options, struct pen_backend_info *infos, size_t room);
/* One of them, the others left alone: looking at a GPU loads its driver, tens of megabytes. False when this build has no backend of that name. */
bool pen_backend_find(const struct pen_engine_options *options, const char *name, struct pen_backend_info *ret_info);

/* Formats that this build reads: "tflite, tfjs, onnx". */
const char *pen_engine_formats(void);

/* ---- model ------------------------------------------------------------------------------------------------------------------------ */

/* Loads by content (ONNX, TFLite, TensorFlow.js with its shards beside it). FILE#ENTRY: one of several entry points of a TFLite file. The file stays mapped while the model lives. Threads: one-at-a-time per engine. */
enum pen_status pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                               struct pen_error *reterr);
/* The same for files that others put there: where `path` is a link it leads to a file beneath its own folder or beneath `folder`, or is refused. */
enum pen_status pen_model_load_beneath(struct pen_engine *engine, const char *path, const char *folder,
                                       struct pen_model **ret_model, struct pen_error *reterr);
void pen_model_free(struct pen_model *model); /* after its sessions; NULL is fine */

/* Signatures: data is NULL; a dim of -1 is dynamic. Borrowed until the model is freed. Threads: any. */
const struct pen_tensor *pen_model_inputs(const struct pen_model *model, size_t *ret_count);
const struct pen_tensor *pen_model_outputs(const struct pen_model *model, size_t *ret_count);
const char *pen_model_symbol(const struct pen_model *model, size_t input, uint32_t dim); /* "N"; NULL = none */
/* False where nothing is known of the rank before a run: `rank` of the signature is 0 then, as a scalar's is. */
bool pen_model_ranked(const struct pen_model *model, bool output, size_t index);
/* real = (q - zero point) * scale of an input or output of quantised integers; false (nothing is written) where the model states none for the whole tensor. */
bool pen_model_input_quant(const struct pen_model *model, size_t input, float *ret_scale, int32_t *ret_zero_point);
bool pen_model_output_quant(const struct pen_model *model, size_t output, float *ret_scale, int32_t *ret_zero_point);
/* Names of the classes that the file itself has, one a line (TFLite's metadata, ONNX's ZipMap); NULL = it has none. Lives as long as the model. */
const char *pen_model_labels(const struct pen_model *model, size_t *ret_bytes);
/*
 * How the file says that the pixels of input 0 were normalised: (pixel - mean) / deviation per channel, or one pair for all. Writes up to `room` of each; gives their
 * number, 0 = it does not say. The engine itself normalises nothing.
 */
size_t pen_model_normalisation(const struct pen_model *model, float *ret_mean, float *ret_deviation, size_t room);
const char *pen_model_placement(const struct pen_model *model); /* "xnnpack 61/64 nodes 99.2 % of MACs; ..." */
const char *pen_model_format(const struct pen_model *model);    /* "onnx" */
/* What it computes in: the engine's precision, or INT8 where every product (without products: every value) is of integers. */
enum pen_precision pen_model_precision(const struct pen_model *model);
bool pen_model_stochastic(const struct pen_model *model); /* random or stateful operators: answers must not be cached */
/* SHA-256 cut to 16 bytes over the model file and its external data in the order of their names. */
void pen_model_digest(const struct pen_model *model, uint8_t ret_digest[16]);
uint64_t pen_model_bytes(
    const struct pen_model
        *model); /* packed weights, on a device too, and the constants that are read where they lie */
/* All that the model and its sessions hold now, on the host and on devices: pen_model_bytes, variants, buckets and arenas. Threads: any. */
uint64_t pen_model_memory(const struct pen_model *model);
uint64_t pen_model_weights(
    const struct pen_model *model); /* of all constants the optimised graph uses, in the precision it computes in */

/* ---- session ---------------------------------------------------------------------------------------------------------------------- */

/*
 * One compute slot's state: execs per shape bucket, arena. The least recently used bucket goes first, when there are 16 or when memory is wanted: a session may
 * hold an equal part of what budget_bytes leaves beside the weights. Shapes beyond that are PEN_ERR_TOO_LARGE. Threads: one-at-a-time.
 */
enum pen_status pen_session_new(struct pen_model *model, struct pen_session **ret_session, struct pen_error *reterr);
void pen_session_free(struct pen_session *session); /* NULL is fine */

/* Makes the bucket of these input shapes ready, or says PEN_ERR_TOO_LARGE where that would need the memory of others that are, and executes it once on zeros (sensible values for integer inputs). The flag warmup says less: "compile" does not execute, "none" does nothing; the times are 0 then. Times in microseconds; pointers may be NULL. */
enum pen_status pen_session_warm(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                 uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr);

/*
 * Selects the bucket for these inputs (names or, where name is NULL, positions; dims decide) and gives the memory where input `index` may be written, so that a
 * gather or a preprocessing step writes once. Valid until the next call on the session. 64 readable bytes follow each buffer.
 */
enum pen_status pen_session_bind(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                 struct pen_error *reterr);
void *pen_session_input(struct pen_session *session, size_t index, size_t *ret_bytes);

/*
 * What the calling thread loads, prepares and runs from now on uses no threads beside it, whatever the engine's options say: for work that is to give way to
 * sessions that serve. Threads: any; each call is about the calling thread.
 */
void pen_thread_alone(bool alone);

/* Shape buckets made ready so far, those dropped since included: a caller sees by it whether a bind had to prepare. */
uint64_t pen_session_prepared(const struct pen_session *session);

/* A request to stop, from any thread: seen between layers. */
struct pen_stop;
struct pen_stop *pen_stop_new(void);
void pen_stop_free(struct pen_stop *stop);
void pen_stop_arm(struct pen_stop *stop,
                  uint64_t deadline_us);  /* before a run; absolute CLOCK_MONOTONIC, UINT64_MAX = none */
void pen_stop_now(struct pen_stop *stop); /* Threads: any */

/* Runs the bound bucket. Outputs (in the model's order; *ret_count of them) are borrowed until the next call on the session. */
enum pen_status pen_session_run_bound(struct pen_session *session, const struct pen_stop *stop,
                                      const struct pen_tensor **ret_outputs, size_t *ret_count,
                                      struct pen_error *reterr);
/* bind + copy + run. Inputs are borrowed for the call. STRING tensors are in wire form. */
enum pen_status pen_session_run(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                const struct pen_stop *stop, const struct pen_tensor **ret_outputs, size_t *ret_count,
                                struct pen_error *reterr);

/*
 * Several runs on their way: bind, write inputs, submit; then the next; await gives them back in order. While the device computes one, the inputs of the next are
 * copied to it and its kernels wait in the queue behind. Where the backend computes on the CPU a run begins when it is awaited, and the window is 1.
 *
 * pen_session_window: for the bound shapes, runs that may be submitted before the first is awaited. PEN_ERR_BUSY from submit, or from bind before a run that has not
 * begun: await first, then try again (inputs that were written stay). Runs that fail do so at their await; PEN_ERR_DEVICE_LOST is then every run's that was on
 * the device. `stop` is borrowed until the run has been awaited. While runs are on their way only these calls, bind and input are allowed: others are PEN_ERR_BUSY.
 */
uint32_t pen_session_window(const struct pen_session *session);
uint32_t pen_session_in_flight(const struct pen_session *session); /* submitted and not awaited */
enum pen_status pen_session_submit(struct pen_session *session, const struct pen_stop *stop, struct pen_error *reterr);
/* The oldest run's outcome, as from pen_session_run_bound. PEN_ERR_TIMEOUT: it is still on its way; UINT64_MAX = wait as long as it takes. */
enum pen_status pen_session_await(struct pen_session *session, uint64_t timeout_us,
                                  const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr);

/* Per-node times of the last runs when profiling is on. */
struct pen_profile_row {
    const char *node, *op, *backend;
    uint64_t runs, total_ns, macs;
};
void pen_session_profile(struct pen_session *session, bool on);
const struct pen_profile_row *pen_session_profile_rows(struct pen_session *session,
                                                       size_t *ret_count); /* borrowed until the next call */

/* What the checks that are set to warn (check_numerics, f16_range_check) found first in the latest run, a sentence without its full stop; "" = nothing.
 * Until the next run. */
const char *pen_session_note(const struct pen_session *session);
/* Nodes that were compared with reference so far, all within their bound (options: compare_reference). */
uint64_t pen_session_compared(const struct pen_session *session);

/* ---- tuning ----------------------------------------------------------------------------------------------------------------------- */

#define PEN_TUNE_FAMILIES 32 /* kernels of one row: families, and tiles of cooperative matrices */

/* One class of products: the times of the kernels that can run it, on the largest product of the class that a session has prepared. Texts are borrowed for the call. */
struct pen_tune_row {
    const char *products; /* "matrix rows 1 outs 513- depth 256-2047" */
    const char *shape;    /* "1x1000x1280 in 1": rows, outputs, depth, groups */
    const char *by_rule;  /* the family that is taken without a table */
    const char *chosen;
    struct {
        const char *family;
        double us; /* of one product */
    } times[PEN_TUNE_FAMILIES];
    size_t time_count;
    const char
        *wrong[PEN_TUNE_FAMILIES]; /* kernels that are left out: their results are not those of the simple ones */
    size_t wrong_count;
};
typedef void pen_tune_row_function(void *context, const struct pen_tune_row *row);

/*
 * Measures the kernels that the chosen backend may choose among, on the products its sessions have prepared, at most class_us per class; keeps the fastest for this
 * engine and, with a cache folder, on disk for those to come (*ret_stored). Plans made before keep their kernels. PEN_ERR_UNSUPPORTED when the backend has nothing
 * to choose. Threads: one-at-a-time, while no session runs.
 */
enum pen_status pen_engine_tune(struct pen_engine *engine, uint64_t class_us, pen_tune_row_function *say, void *context,
                                bool *ret_stored, struct pen_error *reterr);

/* ---- the error of a model's answers ------------------------------------------------------------------------------------------------ */

enum pen_measured_source {
    PEN_MEASURED_REFERENCE,   /* the model runs on the reference backend: there is nothing to compare it with */
    PEN_MEASURED_CALIBRATION, /* on inputs that the caller gave */
    PEN_MEASURED_SEEDED,      /* on inputs drawn in their ranges */
    PEN_MEASURED_STEPS /* of a chain that nobody has run as a whole: the largest of its last steps', where those before them are exact */
};
const char *pen_measured_source_name(enum pen_measured_source source); /* "calibration" */

/* Relative errors against the reference backend (proto/PROTOCOL.md, "Precision"); infinity: an answer that no number is near to. */
struct pen_measured {
    double largest, mean;
    uint32_t inputs; /* sets that were run; 0 for the reference */
    enum pen_measured_source source;
    bool repeatable; /* equal inputs gave equal bits */
};

struct pen_range {
    double low, high; /* low < high, else it says nothing */
};

/* What a model is measured on. Borrowed for the call. */
struct pen_measure_inputs {
    const struct pen_tensor *tensors; /* [sets][inputs of the model], in the model's order, with data */
    size_t sets;                      /* 0: inputs are drawn, always the same ones */
    const struct pen_tensor *shapes;  /* without sets: [inputs], dims without -1, no data */
    const struct pen_range *ranges;   /* without sets: [inputs], or NULL. Else floats are of 0..1 and -1..1 */
};

/* What an earlier measurement of the same content, build, device, precision and inputs has found and kept beside the model (graph/memo.h); of the reference: at
 * once. False: nobody has measured it, or what is kept is broken. Threads: any. */
bool pen_model_measured(const struct pen_model *model, const struct pen_measure_inputs *inputs,
                        struct pen_measured *ret_measured);
/*
 * Loads the model on the reference backend as well, runs each set on both, once more to see whether the bits are the same, and keeps the result. It takes as long
 * as the reference does, and as much memory as a second model; after 20 s the sets that were run must do. *ret_kept: it could be kept. UNSUPPORTED: the model is
 * random, or inputs cannot be drawn. Threads: any, beside the model's sessions; stop: as pen_session_run.
 */
enum pen_status pen_model_measure(struct pen_model *model, const struct pen_measure_inputs *inputs,
                                  const struct pen_stop *stop, struct pen_measured *ret_measured, bool *ret_kept,
                                  struct pen_error *reterr);
/* ---- the error of a chain of models ---- */

/* A step. takes: for each input of the model, in its order, the flow that it takes. gives: for each output, the flow that it becomes; UINT32_MAX = nobody wants it. */
struct pen_measure_step {
    struct pen_model *model;
    const uint32_t *takes, *gives;
};

/* Models that feed each other: flows 0 .. inputs - 1 are the inputs of the whole, `outputs` are flows. Each step takes inputs of the whole or what steps before it
 * give. Borrowed for the call. */
struct pen_measure_chain {
    const struct pen_measure_step *steps;
    size_t steps_count;
    uint32_t flows, inputs;
    const uint32_t *outputs;
    size_t outputs_count;
};

/* As pen_model_measured and pen_model_measure, of the whole: all steps on their own backends beside all steps on the reference, from the inputs of the whole to its
 * outputs. An error of one step that the next one enlarges is in it. Kept beside the model of the first step. `inputs` are those of the whole. */
bool pen_chain_measured(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                        struct pen_measured *ret_measured);
enum pen_status pen_chain_measure(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                                  const struct pen_stop *stop, struct pen_measured *ret_measured, bool *ret_kept,
                                  struct pen_error *reterr);

/* Of this process: measurements made (of errors, and trials of f16), and results found in files instead. Threads: any. */
void pen_measure_counts(uint64_t *ret_made, uint64_t *ret_found);

/* ---- memory ----------------------------------------------------------------------------------------------------------------------- */

struct pen_memory {
    uint64_t models, sessions, buckets; /* objects alive */
    uint64_t weights_bytes;             /* of all models: pen_model_bytes and variants */
    uint64_t arena_bytes;               /* of all sessions: buckets with what backends hold for them, arenas of runs */
    uint64_t tensors;                   /* handles alive (penstock/tensors.h) */
    uint64_t tensor_bytes;              /* of their data, borrowed data not counted */
    uint64_t bytes;                     /* weights_bytes + arena_bytes + tensor_bytes */
    uint64_t peak_bytes;                /* the highest `bytes` since the start, or since pen_memory_peak_reset */
    uint64_t device_bytes;              /* memory of devices, what they stage on the host included */
    uint64_t reserved[6];               /* 0; for later versions */
};
/* All that the engines of this process hold. Threads: any. */
void pen_memory(struct pen_memory *ret_memory);
void pen_memory_peak_reset(void); /* the peak is what is held now. Threads: any */

const char *pen_engine_version(void);
const char *pen_engine_build(void);                          /* differs when the code does: 16 hex digits, or "none" */
const char *pen_engine_isa(const struct pen_engine *engine); /* of the processor: "avx512" */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
