/*
 * match.h - which worker shall run a batch: the one that is expected to answer first, or none for now when waiting for a busy one is quicker.
 *
 * Pure: facts in, an index out, so that tables of cases can hold it. Threads: any.
 */
#ifndef MATCH_H
#define MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

struct cache_value;

/* What a job asks of its worker beyond the model. */
struct demand {
    char backend[32];         /* empty = any */
    enum precision precision; /* the least it accepts */
    uint64_t worker;          /* only this one, by its uuid; 0 = any */
    const char *tags;         /* each tag followed by '\n'; NULL or empty = none */
    uint32_t forms;           /* of its model, that take the job: a form_set (form.h); 0 = any */
};

/* `tags` of the worker in the same form; `backend` and `precision` of its offer. */
bool match_capable(const struct demand *demand, const char *backend, enum precision precision, const char *tags);
/* A cached answer is good enough for who demands this. */
bool match_cached(const struct demand *demand, const struct cache_value *value);
/* True when an answer computed in `have` is good enough for who demands `want`: f32 serves everybody, and within the fp16 family more is fine. */
bool match_precision(enum precision want, enum precision have);

struct match_candidate {
    uint32_t target,
        rows; /* of the batches that suit it best; of those, what it could take now: 1 or more. For who chooses */
    uint64_t backlog_us;  /* expected work it holds, per slot, or the age of its oldest dispatch when that is more */
    uint64_t expect_us;   /* of this batch */
    uint64_t transfer_us; /* to get the inputs there */
    uint64_t load_us;     /* until the model is in the worker's memory; 0 = it is */
    uint32_t slots;       /* that share the backlog; 0 counts as 1 */
    bool credit;          /* it may be given work now */
    uint64_t credit_us;   /* otherwise: when it may be by the time alone; UINT64_MAX = not known */
};

#define MATCH_WAIT (-1)

/* The one with the least expected completion, with or without credit; MATCH_WAIT: there is none. */
int match_best(const struct match_candidate *candidates, size_t count);

/*
 * Nobody should run the head now, for a busy worker will be done with it earlier. Of `queued` jobs behind it, one may be better off on a slower worker that has
 * credit: the first for which all those that are busy and quicker would be done later. Returns that worker, and in *ret_rank how many jobs are before that one;
 * MATCH_WAIT: there is no such worker, or no such job. Nobody is done later for it, neither that job nor those that it passes.
 */
int match_aside(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t *ret_rank);

/*
 * queued: jobs that stay behind in the same queue; deadline_us: time left of the most urgent one, UINT64_MAX = none. Returns the index of the
 * candidate with the least expected completion, or MATCH_WAIT: none has credit, or one without credit would be done earlier.
 */
int match_choose(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t deadline_us);

#endif
