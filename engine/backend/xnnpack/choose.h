/*
 * choose.h - which of several kernels runs a step: they are timed on the step's own memory when its exec is made, the quickest stays.
 *
 * What was found is known to all execs of the process, whatever their threads, so that all give the same bits. It is kept beside the model (graph/memo.h), by the
 * model's content, the build and the processor. The kernel that the rules name stays where another is not clearly quicker; where nothing is measured
 * (backend_config.measure_kernels), or the time for measuring is spent; and where a kernel has no chance it is not tried.
 * Threads: choose_run of two execs wait for each other.
 */
#ifndef XNNPACK_CHOOSE_H
#define XNNPACK_CHOOSE_H

#include "backend/xnnpack/emit.h"

#define RIVALS_MAX     4
#define RIVALS_NUMBERS 12

enum rivals_kind { RIVALS_CONV = 1 };

/* All that decides which kernel is the quickest; no holes. */
struct rivals_key {
    uint32_t kind, lanes; /* lanes: floats of a vector, so that limits of the instruction set do not meet */
    uint32_t numbers[RIVALS_NUMBERS];
};

struct rivals {
    struct rivals_key key;
    const char *const *names; /* [count] */
    void (*take)(struct step *s, uint32_t which);
    uint64_t work;        /* multiply-adds of the product: the largest are measured first */
    uint32_t count, rule; /* rule: what runs without a measurement */
    uint32_t hopeless;    /* bit i: it is not tried */
    bool settled;         /* choose_offer has found it: build may rely on what was taken */
    char why[192];
};

/* In a build: takes what is known or the rule's; where it is to be measured, once the exec has its memory. Sets rivals->settled. PEN_ERR_NO_MEMORY. */
enum pen_status choose_offer(struct build *b, struct rivals *rivals);
/* Times what has not been settled, for at most so long. The steps are bound to memory that nobody reads; `now` may be NULL: CLOCK_MONOTONIC. */
struct choose_time {
    uint64_t (*now)(void);
    uint64_t budget_ns;
};
void choose_run(struct step *steps, size_t count, const struct graph *g, struct choose_time time, struct run *r);
/* What an earlier start has kept beside the graph's model. */
void choose_recall(const struct graph *g);

#endif
