/*
 * penstock/explain.h - what the engine chose by itself, and why: backends, passes, precision, the backend and kernel of each node, shape buckets, threads.
 *
 * Give a log to pen_engine_options.explain: the engine, its models and its sessions write a row for each choice when they make it. Without a log nobody writes.
 * Threads: one-at-a-time, and so is an engine that has a log.
 */
#ifndef PENSTOCK_EXPLAIN_H
#define PENSTOCK_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

enum pen_choice {
    PEN_CHOICE_BACKEND,   /* which backends were opened, in which order they are asked */
    PEN_CHOICE_PASS,      /* a graph pass fired, or did not */
    PEN_CHOICE_PRECISION, /* what is computed in what: the model, its layers */
    PEN_CHOICE_PLACEMENT, /* the backend of a node */
    PEN_CHOICE_KERNEL,    /* the kernel of a node for the shapes of a bucket */
    PEN_CHOICE_BUCKET,    /* a run's shapes: prepared anew, or ready */
    PEN_CHOICE_THREADS,   /* of a session */
    PEN_CHOICE_COUNT
};

struct pen_explain_row {
    enum pen_choice about;
    const char *scope;   /* "" = the model; else the subgraph or variant of it that the row is about */
    const char *subject; /* the backend, pass, node or session that was decided about */
    const char *choice;  /* a few words */
    const char *reason;  /* a phrase: why this one, and why not the others */
};

struct pen_explain;
struct pen_explain *pen_explain_new(void);   /* NULL without memory */
void pen_explain_free(struct pen_explain *); /* after the engine; NULL is fine */
/* In the order of the choices. Borrowed until the next choice. At most 100,000 are kept: *ret_lost (may be NULL) came after them, or found no memory. */
const struct pen_explain_row *pen_explain_rows(const struct pen_explain *explain, size_t *ret_count,
                                               uint64_t *ret_lost);
/* "backend", "pass" ... */
const char *pen_choice_name(enum pen_choice choice);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
