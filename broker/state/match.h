/*
 * match.h - chooses the worker for a batch: the one that should answer first, or none for now when waiting for a busy
 * one is quicker.
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
    enum precision precision; /* the lowest precision that it accepts; with error_max `any` is really any */
    double error_max;         /* the measured relative error is within it (PROTOCOL.md, "Precision"); 0 = not asked */
    bool exact;               /* f32-exact: alone in its batch, where equal inputs gave equal bits */
    uint64_t worker;          /* uuid of the only worker that may run it; 0 = any */
    const char *tags;         /* a list (tags.h) of tags and flags; NULL or empty = none */
    uint32_t forms;           /* the model's forms that take the job: a form_set (form.h); 0 = any */
};

/* What a worker's offer of a model, or a cached answer, is known to keep. */
struct capability {
    const char *backend;
    const char *tags; /* of the worker, in the same form as a demand's; NULL = none */
    enum precision precision;
    double error; /* measured, the largest; infinity = not measured */
    bool repeatable;
};

/* Whether a worker meets the demand. */
bool match_capable(const struct demand *demand, const struct capability *have);
/* The part of it that is about numbers: class, bound and repeatability. */
bool match_contract(const struct demand *demand, const struct capability *have);
/* "f32-exact", "max_relative_error=0.01", "f16_mma and max_relative_error=0.01": what the demand says of numbers. */
const char *match_contract_text(const struct demand *demand, char *text, size_t bytes);
/* A bound as it came: 0 when it is none (not a number, not above 0, or infinite). */
double contract_bound(double told);
/* True when a cached answer meets the demand. */
bool match_cached(const struct demand *demand, const struct cache_value *value);
/* True when an answer computed in `have` meets the demand `want`: f32 is good enough for every demand; within the
   fp16 family a higher precision is, too. */
bool match_precision(enum precision want, enum precision have);

struct match_candidate {
    uint32_t target,
        rows; /* rows of the batches that suit it best; how many of those it could take now, 1 or more. Used by choose.c */
    uint64_t backlog_us;  /* expected work it holds, per slot, or the age of its oldest dispatch when that is more */
    uint64_t expect_us;   /* of this batch */
    uint64_t transfer_us; /* to send the inputs to the worker */
    uint64_t load_us;     /* until the model is in the worker's memory; 0 = it is there */
    uint32_t slots;       /* slots that share the backlog; 0 counts as 1 */
    bool credit;          /* it may be given work now */
    uint64_t credit_us;   /* without credit: when time alone should bring some; UINT64_MAX = not known */
};

#define MATCH_WAIT (-1)

/* The candidate that is expected to be done first, with or without credit; MATCH_WAIT: there is no candidate. */
int match_best(const struct match_candidate *candidates, size_t count);

/*
 * Call it when the head waits because a busy worker will be done with it earlier. One of the `queued` jobs behind it
 * may be better off on a slower worker that has credit: the first job that all quicker, busy workers would finish later
 * than that worker. Returns that worker, and in *ret_rank how many jobs are ahead of that job; MATCH_WAIT: no such
 * worker or job. Neither that job nor the jobs that it passes are done later because of this.
 */
int match_aside(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t *ret_rank);

/*
 * queued: jobs that stay behind in the same queue; deadline_us: time left of the most urgent one, UINT64_MAX = none.
 * Returns the candidate that is expected to be done first, or MATCH_WAIT: none has credit, or one without credit would
 * be done earlier.
 */
int match_choose(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t deadline_us);

#endif
