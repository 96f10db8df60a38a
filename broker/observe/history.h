/*
 * history.h - the last hour in steps of five seconds, so that a page can draw it as soon as it is opened.
 *
 * One track for the whole pool, and one per model for at most HISTORY_MODELS_MAX of them: each is a ring of
 * HISTORY_STEPS points of 72 bytes, 51 KiB; with all tracks 3.5 MiB. Points are placed by the broker's own clock, so
 * setting the system's clock moves none of them.
 * Threads: one-at-a-time (historian.h has the lock). Pure: snapshots are parameters.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"

#define HISTORY_STEP_US    UINT64_C(5000000)
#define HISTORY_STEPS      720u /* an hour */
#define HISTORY_MODELS_MAX 64u
#define HISTORY_NONE       UINT32_MAX /* the time is unknown: no job was measured in that step */

/* The jobs since the point before it, and the state at its end. */
struct history_point {
    uint64_t at_us; /* broker's clock; 0 = no point */
    uint32_t span_ms;
    uint32_t done, failed, rejected, hits, misses;
    uint32_t queued, running;
    uint32_t p50_us, p95_us, p99_us; /* over all jobs that a worker answered, from admission to the answer */
    uint32_t queue_us, transfer_us, decode_us, compute_us; /* means */
};

struct history;

struct history *history_new(void);          /* NULL without memory */
void history_free(struct history *history); /* NULL is fine */

/* Adds at most one point per step: skips a snapshot that falls into the step of the last point. Without memory for a
   model's track, the track is left out. */
void history_add(struct history *history, const struct snapshot *snapshot);

/*
 * Copies the points of the last hour before now_us, oldest first, into `points` of HISTORY_STEPS. name NULL: of the
 * pool. False: the model is unknown; *ret_count is then 0.
 */
bool history_points(const struct history *history, const char *name, uint64_t version, uint64_t now_us,
                    struct history_point *points, size_t *ret_count);

/* {"step_s": 5, "now_us": ..., "columns": [...], "points": [[...], ...]}; an unknown time is null. */
void history_json(const struct history_point *points, size_t count, uint64_t now_us, struct writer *writer);

#endif
