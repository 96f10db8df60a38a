/*
 * history.h - the last hour in steps of five seconds: what a page that is opened now draws at once.
 *
 * One track for the whole pool, and one per model for at most HISTORY_MODELS_MAX of them: each is a ring of HISTORY_STEPS points of 64 bytes, 45 KiB; with
 * all tracks 3.1 MiB. Points are placed by the broker's own clock, so setting the system's clock moves none of them.
 * Threads: one-at-a-time (historian.h has the lock). Pure: snapshots are parameters.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"

#define HISTORY_STEP_US    UINT64_C(5000000)
#define HISTORY_STEPS      720u /* an hour */
#define HISTORY_MODELS_MAX 64u
#define HISTORY_NONE       UINT32_MAX /* a time of a step in which no job was measured */

/* What happened since the point before it, and how much was there at its end. */
struct history_point {
    uint64_t at_us; /* broker's clock; 0 = no point */
    uint32_t span_ms;
    uint32_t done, failed, rejected, hits, misses;
    uint32_t queued, running;
    uint32_t p50_us, p95_us, p99_us;            /* of all that a worker answered, from admission to the answer */
    uint32_t queue_us, transfer_us, compute_us; /* means */
};

struct history;

struct history *history_new(void);          /* NULL without memory */
void history_free(struct history *history); /* NULL is fine */

/* At most one point per step: a snapshot of the step that the last one was of is passed over. Without memory a model's track is left out. */
void history_add(struct history *history, const struct snapshot *snapshot);

/*
 * Copies the points of the last hour before now_us, oldest first, into `points` of HISTORY_STEPS. name NULL: of the pool. False: nothing is known of that
 * model; *ret_count is then 0.
 */
bool history_points(const struct history *history, const char *name, uint64_t version, uint64_t now_us,
                    struct history_point *points, size_t *ret_count);

/* {"step_s": 5, "now_us": ..., "columns": [...], "points": [[...], ...]}; a time that is not known is null. */
void history_json(const struct history_point *points, size_t count, uint64_t now_us, struct writer *writer);

#endif
