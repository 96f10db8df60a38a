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

struct backend;
struct plan;
struct exec;

/* What is claimed before opening. */
struct backend_caps {
    bool available;
    char reason[256]; /* when not: what is missing and what to do */
    char device[128]; /* "Intel Xeon (AVX-512)", a GPU's name */
    char library[96]; /* "xnnpack-2022", with ISA where it changes last bits: provenance */
    uint32_t precisions; /* bit 1u << enum pen_precision */
};

struct backend_config {
    enum pen_precision precision;
    uint32_t threads; /* of one slot; >= 1 */
    bool check_numerics;
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
    int64_t channel_stride; /* elements between neighbours along the last dim's rows; 0 = dense */
};

/* Shared with the caller of a run; checked between layers. */
struct cancel {
    atomic_int stop;      /* set to 1 by any thread */
    uint64_t deadline_us; /* absolute monotonic, UINT64_MAX = none */
};
bool cancel_wanted(const struct cancel *c); /* NULL: false */

struct backend_ops {
    const char *name;
    int priority; /* vulkan 30, onednn 25, xnnpack 20, reference 10 */
    enum pen_status (*probe)(struct backend_caps *ret_caps);
    enum pen_status (*open)(const struct backend_config *config, struct backend **ret_backend, struct pen_error *reterr);
    void (*close)(struct backend *backend); /* NULL is fine */
    /* Pure. Shapes in g may be partly unknown; answer true only when every shape that fits what is known can be run. `reason` (may be NULL) gets a phrase when false. */
    bool (*supports)(const struct backend *backend, const struct graph *g, const struct node *n, const char **ret_reason);
    enum pen_status (*plan_new)(struct backend *backend, const struct graph *g, const struct partition *part, struct plan **ret_plan,
                                struct pen_error *reterr); /* keeps g (borrowed until plan_free); copies part */
    void (*plan_free)(struct plan *plan);
    uint64_t (*plan_bytes)(const struct plan *plan); /* packed weights */
    /* env: concrete shapes of every value, known data of folded ones; borrowed until exec_free. Nodes whose outputs are folded in env are skipped. */
    enum pen_status (*exec_new)(struct plan *plan, const struct shape_env *env, struct exec **ret_exec, struct pen_error *reterr);
    void (*exec_free)(struct exec *exec);
    uint64_t (*exec_bytes)(const struct exec *exec);
    /* Views in the order of part->in / part->out. The same pointers as last time cost nothing. Returns at once where the device is asynchronous. */
    enum pen_status (*exec_submit)(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out, const struct cancel *cancel,
                                   struct pen_error *reterr);
    enum pen_status (*exec_wait)(struct exec *exec, struct pen_error *reterr); /* CANCELLED or DEADLINE when cancel said so between layers */
};

/* backend_table.c: built-in backends by falling priority; *ret_count of them. Explicit, generated from PENSTOCK_BACKENDS. */
const struct backend_ops *const *backend_table(size_t *ret_count);
const struct backend_ops *backend_find(const char *name); /* NULL when not built in */

/* partition.c: assigns every node to one of `count` open backends (falling priority) and cuts partitions. */
struct placed {
    uint32_t backend; /* index into the list given; PLACED_EXECUTOR for control flow, sequences and data-dependent shapes */
    struct partition part;
    struct plan *plan; /* NULL for PLACED_EXECUTOR */
};
#define PLACED_EXECUTOR UINT32_MAX

struct placement {
    struct placed *steps; /* in execution order */
    uint32_t step_count;
    char text[512];       /* "xnnpack 61/64 nodes 99.2 % of MACs; reference 3: Resize, Pad, Pad" */
    double macs_share[8]; /* per backend of the list, 0..1 */
    uint32_t nodes[8];
};
struct open_backend {
    const struct backend_ops *ops;
    struct backend *self;
};
/* strict: every node must go to backends[0]; otherwise PEN_ERR_UNSUPPORTED naming all nodes that cannot, with reasons. */
enum pen_status placement_new(const struct open_backend *backends, size_t count, const struct graph *g, bool strict, struct placement **ret_placement,
                              struct pen_error *reterr);
void placement_free(struct placement *p, const struct open_backend *backends);

/* Multiply-adds of a node for known shapes, 0 when unknown or not counted (placement, profile). */
uint64_t node_macs(const struct graph *g, const struct node *n, const struct fact *facts);

#endif
