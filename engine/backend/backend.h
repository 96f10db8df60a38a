/*
 * backend.h - the contract of a backend: it takes partitions of a graph, not single operators (README.md compares the three shapes).
 *
 * Lifecycle: probe (cheap) -> open (self-tests) -> plan_new per model (slow; packs weights; immutable, shared by slots) -> exec_new per slot and shape bucket
 * -> exec_submit / exec_wait without allocation -> exec_free -> plan_free -> close. Control flow, sequences and data-dependent shapes live in the executor.
 * Threads: probe, open, close, plan_new, plan_free: one-at-a-time per backend. supports: any. One exec: one-at-a-time; execs of one plan run in parallel.
 */
#ifndef BACKEND_H
#define BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/infer.h"
#include "penstock/engine.h"

/* The calling thread works without helpers: pen_thread_alone. */
extern _Thread_local bool backend_alone;
/* Memory of devices that all backends hold: pen_memory. A backend with a device adds and takes away. */
extern atomic_uint_least64_t backend_device_bytes;

struct backend;
struct plan;
struct exec;
struct backend_kept;

/* What is claimed before opening. */
struct backend_caps {
    bool available;
    char reason[320];    /* when not: what is missing and what to do */
    char device[128];    /* "Intel Xeon (AVX-512)", a GPU's name */
    char library[96];    /* "xnnpack-2022", with ISA where it changes last bits: provenance */
    uint32_t precisions; /* bit 1u << enum pen_precision */
};

struct backend_config {
    enum pen_precision precision;
    uint32_t threads;         /* of one slot; >= 1 */
    bool check_numerics;      /* NaN and infinity are found at the node that makes them */
    bool pin;                 /* helper threads stay on one processor each */
    enum pen_isa isa_max;     /* of own kernels on the CPU */
    bool profile;             /* exec_times is going to be asked: nodes may run one after the other for it */
    bool measure_kernels;     /* kernels that compete for a node are timed when an exec is made; else rules choose */
    uint64_t (*now_ns)(void); /* the clock for that; NULL = backend_now_ns */
    struct pen_vulkan_options vulkan; /* strings are borrowed for the call it is given to */
    const char *options;              /* the same: "BACKEND.NAME=VALUE,...", checked (backend/options.h); NULL = none */
};

/* A set of nodes that runs as one piece. Values used from outside and outside users decide in / out. Lists are ids in g, in topological order. */
struct partition {
    const uint32_t *nodes;
    uint32_t node_count;
    const uint32_t *in; /* values computed before; constants are not listed */
    uint32_t in_count;
    const uint32_t *out;
    uint32_t out_count;
};

/* Memory of one boundary value for one run. At least LIFETIME_PAD readable bytes follow `data`, which is 64-byte aligned. */
struct buffer_view {
    void *data;
    size_t bytes;
    struct shape shape;
    enum pen_dtype dtype;
    int64_t channel_stride;    /* elements between neighbours along the last dim's rows; 0 = dense */
    struct backend_kept *kept; /* exec_submit's inputs: the value is there and not in `data`; NULL = it is not */
};

/* Shared with the caller of a run; checked between layers. */
struct cancel {
    atomic_int stop;      /* set to 1 by any thread */
    uint64_t deadline_us; /* absolute monotonic, UINT64_MAX = none */
};
bool cancel_wanted(const struct cancel *c); /* NULL: false */
uint64_t backend_now_ns(void);              /* CLOCK_MONOTONIC */

struct backend_ops {
    const char *name;
    bool is_device; /* it computes in memory of its own: what is small may run nearer to the data (placement_choice) */
    bool
        is_reference; /* the executor falls back to its kernels: what it takes is no fallback, and nothing is measured of it */
    int priority; /* vulkan 30, xnnpack 20, reference 10 */
    /* May be NULL: none. Its own options, ended by a row without a name; backend_option() reads them. */
    const struct pen_backend_option *options;
    /* Its plan_new packs large weights from where they lie in the model's file, and aligns what it reads otherwise (graph/askew.h). Else all constants are aligned before. */
    bool takes_askew;
    /* May be NULL: false. Pure. Its kernels want the graph turned to NHWC. */
    bool (*wants_layout)(const struct backend_config *config);
    enum pen_status (*probe)(const struct backend_config *config, struct backend_caps *ret_caps);
    enum pen_status (*open)(const struct backend_config *config, struct backend **ret_backend,
                            struct pen_error *reterr);
    void (*close)(struct backend *backend); /* NULL is fine */
    /* May be NULL. Facts about the open device for people and for the worker's hello: say(context, "vulkan.uuid", "..."). */
    void (*describe)(const struct backend *backend, void (*say)(void *context, const char *name, const char *value),
                     void *context);
    /* May be NULL (none). Kernels compiled since it was opened. Threads: any. */
    uint64_t (*compiled)(const struct backend *backend);
    /* Pure. It has kernels for this operator in some form (OPS.md is held to it: each such operator has a sample that runs). */
    bool (*claims)(enum op op);
    /* May be NULL. Names of what the operator's kernels are made of beside code (shaders), with blanks between; NULL = nothing. */
    const char *(*parts)(enum op op);
    /* Pure. Shapes in g may be partly unknown; answer true only when every shape that fits what is known can be run. `reason` (may be NULL) gets a phrase when false. */
    bool (*supports)(const struct backend *backend, const struct graph *g, const struct node *n,
                     const char **ret_reason);
    enum pen_status (*plan_new)(struct backend *backend, const struct graph *g, const struct partition *part,
                                struct plan **ret_plan,
                                struct pen_error *reterr); /* keeps g (borrowed until plan_free); copies part */
    void (*plan_free)(struct plan *plan);
    uint64_t (*plan_bytes)(const struct plan *plan); /* packed weights */
    /* May be NULL. What a person should know of the plan, a few words with layer names; nothing is written when there is nothing. */
    void (*plan_note)(const struct plan *plan, char *text, size_t bytes);
    /* May be NULL (none). Bit i: the plan holds all it needs of the constant input i of part->nodes[index], so that neither it nor its execs read it again. */
    uint64_t (*plan_copied)(const struct plan *plan, uint32_t index);
    /* env: concrete shapes of every value, known data of folded ones; borrowed until exec_free. Nodes whose outputs are folded in env are skipped. */
    enum pen_status (*exec_new)(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                                struct pen_error *reterr);
    void (*exec_free)(struct exec *exec);
    uint64_t (*exec_bytes)(const struct exec *exec);
    /* May be NULL. Before the first run: all runs of the exec come one at a time and have these views, whose data lies in one allocation that stays until exec_free;
     * nobody writes inputs or touches outputs, or the pad behind them, between a run's submit and its wait. A device that can work in such memory saves the copies. */
    enum pen_status (*exec_bind)(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                 struct pen_error *reterr);
    /* Views in the order of part->in / part->out. The same pointers as last time cost nothing. Returns at once where the device is asynchronous. */
    enum pen_status (*exec_submit)(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                   const struct cancel *cancel, struct pen_error *reterr);
    enum pen_status (*exec_wait)(
        struct exec *exec, struct pen_error *reterr); /* CANCELLED or DEADLINE when cancel said so between layers */
    /* May be NULL: 1. Runs of the exec that may be submitted before the first of them is waited for; waits come in the order of the submits. The inputs of a run are
     * read by its exec_submit, its outputs are written by its exec_wait. Another submit is PEN_ERR_BUSY. */
    uint32_t (*exec_window)(const struct exec *exec);
    /* May be NULL: true. Works on the oldest run for at most so long; false: exec_wait would still have to wait for it. */
    bool (*exec_done)(struct exec *exec, uint64_t timeout_ns);
    /* May be NULL, all three: results do not stay on a device. exec_keep: output `index` of the run that was waited for last, as a value of the device's own that outlives
     * run, exec and plan; an output whose view has no data was not copied to the host. kept_read: all its bytes, to the host; PEN_ERR_DEVICE_LOST when the device or the
     * backend has gone. Threads: exec_keep that of the exec; kept_read and kept_free any. */
    enum pen_status (*exec_keep)(struct exec *exec, uint32_t index, struct backend_kept **ret_kept,
                                 struct pen_error *reterr);
    enum pen_status (*kept_read)(struct backend_kept *kept, void *data, size_t bytes, struct pen_error *reterr);
    void (*kept_free)(struct backend_kept *kept); /* NULL is fine */
    /* May be NULL. Where the config says profile: the times of the nodes (by their index in the partition) in the last run that was waited for. */
    void (*exec_times)(const struct exec *exec, void (*say)(void *context, uint32_t index, uint64_t ns), void *context);
    /* May be NULL. What runs the nodes (by their index in the partition) for this bucket, and why that: a few words each. */
    void (*exec_kernels)(const struct exec *exec,
                         void (*say)(void *context, uint32_t index, const char *kernel, const char *why),
                         void *context);
    /* May be NULL: nothing to choose among. pen_engine_tune says what it does. Nothing else runs on the backend meanwhile. */
    enum pen_status (*tune)(struct backend *backend, uint64_t class_us, pen_tune_row_function *say, void *context,
                            bool *ret_stored, struct pen_error *reterr);
};

/* What a fast backend may rely on in `supports`: all inputs and outputs are tensors, no texts, of known dtype and rank. */
bool node_values_known(const struct graph *g, const struct node *n);
/* backend_table.c: built-in backends by falling priority; *ret_count of them. Explicit, generated from PENSTOCK_BACKENDS. */
const struct backend_ops *const *backend_table(size_t *ret_count);
const struct backend_ops *backend_find(const char *name); /* NULL when not built in */
/* ops->probe(), without the precisions that this build leaves out. */
enum pen_status backend_probe(const struct backend_ops *ops, const struct backend_config *config,
                              struct backend_caps *ret_caps);

#define BACKENDS_MAX 8

struct open_backend {
    const struct backend_ops *ops;
    struct backend *self;
};

/* One step of a graph's execution: a partition with its plan, or nodes the executor runs itself. */
struct placed {
    uint32_t backend; /* index into the list given, or PLACED_EXECUTOR */
    struct partition part;
    struct plan *plan; /* NULL for PLACED_EXECUTOR */
};
#define PLACED_EXECUTOR                                                                                                \
    UINT32_MAX /* control flow, sequences, strings, shapes that depend on data. Shape arithmetic that folds per bucket is in no step. */

struct placement {
    struct open_backend backends[BACKENDS_MAX]; /* falling priority; the last is reference unless strict */
    uint32_t backend_count;
    struct placed *steps; /* in execution order */
    uint32_t step_count;
    uint64_t macs[BACKENDS_MAX];  /* multiply-adds per backend, for the trial shapes */
    uint32_t nodes[BACKENDS_MAX]; /* nodes per backend */
    uint32_t crossings;           /* places where the next step is another backend's, or the executor's */
    uint32_t executor_nodes; /* run by the executor with reference kernels; folded shape arithmetic is not counted */
};

/* How nodes are placed. */
struct placement_choice {
    bool strict; /* every node must go to backends[0] (control flow and folded shape arithmetic excepted) */
    bool watch;  /* every value a partition makes is one of its outputs, so that each node can be compared */
    struct paces *
        paces; /* crossings.h: parts that are not worth their way to the device stay off it; NULL = every way is free */
    uint32_t forward_max; /* elements of a node that a remote backend leaves to the next; 0 = it leaves none */
};

/*
 * placement.c: assigns every node to the first of `backends` that supports it, cuts convex partitions and makes their plans. When strict nodes cannot go to
 * backends[0]: PEN_ERR_UNSUPPORTED with a sentence that lists them and why.
 * later: NULL, or [node_count] nodes that are placed again once the values of small inputs are known (run/variant.h): the strict rule waits for them.
 */
enum pen_status placement_new(const struct open_backend *backends, uint32_t count, const struct graph *g,
                              struct placement_choice how, const bool *later, struct placement **ret_placement,
                              struct pen_error *reterr);
void placement_free(struct placement *p); /* NULL is fine; frees the plans */
/* Adds b's counts to a's: a model and its subgraphs. */
void placement_add(struct placement *a, const struct placement *b);
/* "xnnpack 61/64 nodes 99.2 % of MACs; reference 3/64 nodes 0.8 % of MACs; 2 crossings" */
void placement_text(const struct placement *p, char *text, size_t bytes);

/*
 * trial.c: facts for one plausible choice of the dynamic dims, to learn which shapes are resolvable once inputs are concrete. Where each choice raises a contradiction,
 * that of the shapes in the graph, with its node; NO_MEMORY.
 */
enum pen_status trial_env_new(const struct graph *g, struct shape_env **ret_env, struct pen_error *reterr);
/* The same with sizes that inputs usually have, where they raise no contradiction: for what is computed with them. */
enum pen_status trial_env_usual(const struct graph *g, struct shape_env **ret_env, struct pen_error *reterr);

/* Multiply-adds of a node for known shapes, 0 when unknown or not counted (placement, profile). */
uint64_t node_macs(const struct graph *g, const struct node *n, const struct fact *facts);

#endif
