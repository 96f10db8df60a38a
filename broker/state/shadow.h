/*
 * shadow.h - shadow traffic: a share of a model's jobs is copied to another version, and the two answers are compared.
 *
 * Here are the rules (which model, which version, what share), the pairs of jobs that are under way, and what has come
 * out. A pair waits until both jobs have ended. Pairs are bounded in number, and so are the answers that they keep; what
 * finds no room is not copied, or not compared, and counted as skipped. Rules live in this broker's memory.
 * Threads: owner.
 */
#ifndef SHADOW_H
#define SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "effect.h"
#include "job_id.h"
#include "penstock/status.h"
#include "shared_message.h"

#define SHADOW_RULES_MAX    64u
#define SHADOW_PAIRS_MAX    64u
#define SHADOW_ANSWER_BYTES (256u * 1024u) /* of one answer: comparing is the loop's work, some 100 us for so much */
#define SHADOW_NAME_BYTES   256u

/* What has come out of a rule so far. */
struct shadow_figures {
    uint64_t copied, skipped;  /* jobs of the share; those without a copy, or with answers that were not compared */
    uint64_t failed;           /* copies that ended without an answer where the original had one */
    uint64_t compared, unlike; /* pairs of answers; those whose outputs have other names, types or dims */
    uint64_t rows, same;       /* rows with classes; those with the same first class */
    double largest, sum;       /* relative errors: the largest of an element; the sum of the pairs' means */
    uint64_t original_us, shadow_us; /* sums over the compared pairs: admitted to answered */
};

/* When a label leaves the version again by itself. Limits are parts per million; 0 = that one does not count. */
struct shadow_guard {
    char label[65];            /* "" = none: nothing moves */
    uint64_t back;             /* the version that the label moves to */
    uint32_t errors_ppm;       /* of the jobs that ended on the version, shadow or not */
    uint32_t latency_ppm;      /* mean time of copies, relative to that of their originals */
    uint32_t disagreement_ppm; /* of rows with another first class, or of answers that are not alike */
    uint32_t after;            /* so many jobs or pairs must have ended before anything is judged */
    uint64_t done, failed;     /* of the version, when the rule was set */
};

struct shadow_rule {
    char model[SHADOW_NAME_BYTES]; /* "" = free */
    uint64_t version;              /* that gets the copies */
    uint32_t share_ppm;
    uint64_t owed_ppm;
    struct shadow_figures figures;
    struct shadow_guard guard;
    uint64_t went_back; /* how often the guard has moved a label */
};

/* One of the two jobs of a pair. */
struct shadow_half {
    struct job_id id;
    struct shared_message *answer; /* retained; NULL while there is none */
    bool ended, fine;
    uint64_t took_us;
};

struct shadow_pair {
    struct shadow_rule *rule;
    struct shadow_half original, copy;
    bool copied; /* the copy was submitted */
};

struct shadow {
    struct shadow_rule rules[SHADOW_RULES_MAX];
    uint32_t rules_count;
    struct shadow_pair pairs[SHADOW_PAIRS_MAX];
    uint32_t pairs_count;
    uint64_t copies;     /* number of the last one */
    struct effect moves; /* EFFECT_SHADOW_MOVES */
};

void shadow_fini(struct shadow *shadow);

/*
 * "MODEL VERSION SHARE_PPM [LABEL BACK ERRORS_PPM LATENCY_PPM DISAGREEMENT_PPM AFTER]"; SHARE_PPM 0 ends it. A rule that
 * is set again begins its figures anew.
 */
enum pen_status shadow_set(struct shadow *shadow, const char *argument, struct pen_error *reterr);
/* The rule of that model; NULL = none. */
struct shadow_rule *shadow_rule(struct shadow *shadow, const char *model);
/* What came out so far, as a JSON object. */
const char *shadow_text(const struct shadow_rule *rule, char *text, size_t bytes);
/* NULL, or why the guard must act: a sentence in `text`. done, failed: jobs that ended on the version so far. */
const char *shadow_verdict(const struct shadow_rule *rule, uint64_t done, uint64_t failed, char *text, size_t bytes);
/* True when this job of the model's other versions is one of the share: exactly every so many-th. */
bool shadow_is_due(struct shadow_rule *rule);
/* A pair for the job; NULL: there is no room, which was counted. */
struct shadow_pair *shadow_begin(struct shadow *shadow, struct shadow_rule *rule, struct job_id original);
/* One of the jobs has ended: keeps the answer (retains it; NULL = none). True: it is one of a pair. */
bool shadow_heard(struct shadow *shadow, struct job_id id, struct shared_message *answer, enum pen_status status,
                  uint64_t took_us);
/* The pair ends; the last of the list takes its place. */
void shadow_end(struct shadow *shadow, struct shadow_pair *pair);

#endif
