/*
 * runner.h - one session's side of a program: its shape buckets (least recently used goes first) and the runners of its subgraphs.
 *
 * Threads: one-at-a-time.
 */
#ifndef RUNNER_H
#define RUNNER_H

#include "run/numerics.h"
#include "run/bucket.h"
#include "run/profile.h"
#include "run/rt_arena.h"

struct debug_log;

#define RUNNER_BUCKETS       16 /* shape buckets a session keeps */
#define RUNNER_CHILD_BUCKETS 4  /* of a subgraph */

/* Shared by a session's runners; per run: cancel and error. */
struct run_context {
    struct rt_arena arena;
    uint64_t arena_limit;
    struct ledger ledger;
    struct runner *runners;    /* all of the session */
    const struct bucket *keep; /* holds inputs that somebody has written */
    uint64_t tick;             /* of uses of buckets */
    uint64_t run_tick;         /* when the run that is on its way began */
    uint32_t running;          /* depth of runner_run */
    bool arena_idle;           /* nothing of the arena is needed any more */
    bool keep_all;             /* what is ready stays so: a shape that does not fit beside it is refused */
    uint64_t turns;            /* of all loops of the run so far */
    struct numerics numerics;
    bool compare; /* with reference, node by node: programs are watched */
    enum pen_precision precision;
    uint64_t compared;       /* nodes */
    struct debug_log *debug; /* NULL = off */
    const struct cancel *cancel;
    struct pen_error *error;
    struct profile *profile; /* NULL = off */
    uint64_t prepared_count; /* made so far, those dropped since included */
    uint64_t beside;         /* steps that ran while a device computed another one */
};

/* The log that the run is written to; NULL: none is. */
static inline struct debug_log *debug_of(const struct run_context *c)
{
#ifdef PEN_NO_DEBUG
    (void)c;
    return NULL;
#else
    return c->debug;
#endif
}

struct runner {
    const struct program *program;
    struct run_context *context;
    struct bucket *buckets[RUNNER_BUCKETS];
    uint32_t bucket_count, bucket_room;
    bool child;               /* of a subgraph */
    struct runner **children; /* [program->child_count] */
    struct runner *next;      /* in the session's list */
};

enum pen_status runner_new(const struct program *program, struct run_context *context, struct runner **ret_runner);
void runner_free(struct runner *r); /* NULL is fine */
/* ledger.make_room of a session: `context` is its struct run_context. */
bool runner_make_room(void *context);
/* PEN_ERR_TOO_LARGE: what the session holds is more than it may: runs have taken memory beside what was planned. For warm-ups (keep_all). */
enum pen_status runner_within(const struct run_context *c, struct pen_error *reterr);

/*
 * The bucket of these shapes, made when missing. Where the session may not hold it beside the others the least recently used go, of all its runners; what
 * it may not hold at all is PEN_ERR_TOO_LARGE with a sentence, and none has gone for it.
 */
enum pen_status runner_bucket(struct runner *r, const struct shape *in_shapes, struct bucket **ret_bucket,
                              struct pen_error *reterr);
/* Runs a bucket whose input values are set (planned ones: their memory is filled). Outputs are then in values[g->outputs[i]]. */
enum pen_status runner_run(struct runner *r, struct bucket *b);
/* The same in two parts, for buckets with a window beyond 1: begin reads the inputs and returns while the device computes, finish waits and runs the other steps.
 * Runs of a bucket are finished in the order in which they began; so many may be between the two as its window says. */
enum pen_status runner_begin(struct runner *r, struct bucket *b);
bool runner_done(struct runner *r, struct bucket *b, uint64_t timeout_ns); /* false: finish would wait for the device */
enum pen_status runner_finish(struct runner *r, struct bucket *b);
/* For subgraphs: copies `in` (g->input_count) in, runs, points `out` (g->output_count) at the results: valid until this runner runs again, or the run ends. */
enum pen_status runner_call(struct runner *r, const struct rt_value *in, struct rt_value *out);

/* control.c, scan.c: If, Loop, SequenceMap, Scan. `k` as for a kernel; `node` is the id in r's graph. */
enum pen_status control_run(struct runner *r, uint32_t node, struct kernel_call *k);
enum pen_status scan_run(struct runner *body, struct kernel_call *k);

#endif
