/*
 * pass.h - rewrites of a graph between import and partitioning. Each keeps meaning; each is idempotent; order is pass_run()'s business.
 *
 * Threads: one-at-a-time.
 */
#ifndef PASS_H
#define PASS_H

#include "graph/graph.h"

/* Passes that can be left out by name (pen_engine_options.no_passes), and that explain whether they fired (pass_explain.c). */
enum pass_id {
    PASS_PROMOTE,
    PASS_QUANTISE,
    PASS_BRANCH,
    PASS_UNROLL,
    PASS_DEAD,
    PASS_FOLD,
    PASS_COMMON,
    PASS_FORMULA,
    PASS_PAD,
    PASS_BATCH_NORM,
    PASS_AFFINE,
    PASS_GEMM,
    PASS_ACTIVATION,
    PASS_LAYOUT,
    PASS_SHUFFLE,
    PASS_COUNT
};
const char *pass_name(enum pass_id pass); /* "batch_norm" */
/* Its inverse; PASS_COUNT: no pass has this name. */
enum pass_id pass_find(const char *name);

struct pass_options {
    uint32_t off; /* bit 1u << enum pass_id: left out */
    bool fold;    /* constants and static shapes */
    bool fuse;    /* batch-norm folding, bias and activation fusion, pad fusion, gelu / layer-norm patterns */
    bool
        nhwc; /* one NHWC layout, transposes pushed to the edges and cancelled (fast backends); reference runs either layout */
};

struct pass_report {
    uint32_t nodes_before, nodes_after, folded, batch_norms, activations, pads, transposes_added, transposes_removed,
        common, dead, branches, unrolled, quantised, formulas, affines, gemms, shuffles;
};

enum pen_status pass_run(struct graph *g, const struct pass_options *options, struct pass_report *ret_report,
                         struct pen_error *reterr);

enum pen_status pass_dead(struct graph *g, uint32_t *ret_count); /* unused nodes, Identity, Dropout in inference ... */
enum pen_status pass_fold(struct graph *g, uint32_t *ret_count, struct pen_error *reterr);
/* off: as in pass_options. */
enum pen_status pass_fuse(struct graph *g, uint32_t off, struct pass_report *report, struct pen_error *reterr);
enum pen_status pass_layout(struct graph *g, struct pass_report *report, struct pen_error *reterr);
/* Chains of Transposes and Reshapes: one of each. */
enum pen_status pass_shuffle(struct graph *g, uint32_t *ret_count, struct pen_error *reterr);
enum pen_status pass_qdq(struct graph *g, uint32_t *ret_count,
                         struct pen_error *reterr); /* operators between floats made of bytes and bytes again */
enum pen_status pass_branch(struct graph *g, uint32_t *ret_count,
                            struct pen_error *reterr); /* an If whose condition is a constant */
enum pen_status pass_unroll(struct graph *g, uint32_t *ret_count,
                            struct pen_error *reterr);             /* a Loop of a few turns whose shapes differ */
enum pen_status pass_common(struct graph *g, uint32_t *ret_count); /* common subexpressions */

#endif
