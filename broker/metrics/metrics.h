/*
 * metrics.h - what the pool has done: counters and histograms per model, per series and per tenant, and a few jobs'
 * traces.
 *
 * A series is one (model, version, backend, precision). A row is made when a worker first offers something and is never
 * freed, so pointers to rows stay valid. Beyond the caps everything is counted in row 0, "other", so neither clients
 * nor workers can make the exported text grow without limit. Recording touches plain memory of the loop's thread: no
 * allocation, no lock.
 * Threads: owner.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "close_reason.h"
#include "frame.h"
#include "histogram.h"
#include "job_id.h"
#include "penstock/status.h"
#include "trace.h"

#define METRICS_MODELS_MAX  256u
#define METRICS_SERIES_MAX  512u
#define METRICS_TENANTS_MAX 64u
#define METRICS_KEPT_MAX    2048u /* traces in the ring of kept ones */
#define METRICS_NAME_BYTES  256u
#define METRICS_BATCH_SIZES 7u  /* 1, 2, 4 ... 64 jobs */
#define METRICS_TRACES      32u /* jobs kept of each kind */

enum finish { FINISH_COMPUTED, FINISH_COALESCED, FINISH_CACHED, FINISH_FAILED, FINISH_REJECTED, FINISH_CANCELLED };
const char *finish_name(enum finish how); /* "computed", "coalesced", "cached", "failed", "rejected", "cancelled" */

struct model_tally {
    char name[METRICS_NAME_BYTES];
    uint64_t version;
    uint64_t admitted, requeued, cache_hits, cache_misses;
    uint64_t computed, coalesced, cached; /* answered with OK */
    uint64_t cancelled;                   /* cancelled by their clients, before or after they were admitted */
    uint64_t failed[PEN_STATUS_COUNT];    /* admitted and answered with another error */
    uint64_t rejected[PEN_STATUS_COUNT];  /* refused with another error: they never became jobs */
    uint64_t share_us, share_jobs;        /* slot time by each job's share of its batch: for the mean cost of a job */
    uint64_t saved_cached_us, saved_coalesced_us, saved_cancelled_us; /* slot time not spent, by that mean */
};

/* Of all statuses together. */
uint64_t metrics_sum(const uint64_t by_status[PEN_STATUS_COUNT]);

struct series_tally {
    struct model_tally *model;
    uint32_t model_row;
    char backend[32];
    enum precision precision;
    struct histogram queue;                /* admitted -> sent to the worker */
    struct histogram transfer;             /* sent -> answered, minus the worker's own time: the way there and back */
    struct histogram decode;               /* pictures made ready on the worker; only jobs that brought some */
    struct histogram compute;              /* in the engine */
    struct histogram total;                /* admitted -> answered */
    struct histogram error;                /* |expected - measured| per batch: how good the forecast is */
    uint64_t batches[METRICS_BATCH_SIZES]; /* by number of jobs, rounded up to a power of two */
    uint64_t batch_jobs;
    uint64_t runs[METRICS_BATCH_SIZES]; /* of workers, by number of jobs in the same way */
    uint64_t run_jobs;
    uint64_t closes[CLOSE_COUNT]; /* index 0 is CLOSE_FIRST */
    uint64_t busy_us;             /* slot time spent; each batch counts once */
    uint64_t measured;            /* jobs of measured batches */
    uint64_t busy_seen_us;
    double busy_rate; /* slots that were busy, a mean over METRICS_RATE_S seconds */
};

struct tenant_tally {
    char name[65];
    uint64_t jobs, bytes_in, bytes_out, compute_us;
};

/* One job from its arrival to its answer. Times that do not apply are 0. */
struct job_trace {
    struct job_id id;
    uint32_t model_row, series_row; /* 0: none, or other */
    enum finish how;
    enum pen_status status;
    uint32_t attempts, batch;
    enum close_reason reason; /* why its batch closed */
    uint64_t ended_us;        /* broker's clock */
    uint64_t queue_us, transfer_us, worker_us, compute_us, total_us;
    char worker[32];
    char error[128];
    uint64_t client_us, lookup_us;                    /* before admission; asking Redis */
    uint64_t wait_us, decode_us, gather_us, split_us; /* time on the worker that is not compute_us */
    struct trace_note note;
    struct trace_layers *layers; /* shared: each row of a ring holds a reference; NULL = no layers were asked for */
};

struct job_traces {
    struct job_trace rows[METRICS_TRACES];
    uint64_t count; /* ever written */
};

void job_traces_fini(struct job_traces *job_traces); /* releases their layers */

/* Traces kept because they were sampled, asked for, or slow. A new trace overwrites the oldest. */
struct job_traces_ring {
    struct job_trace *rows; /* [room] */
    uint32_t room;
    uint64_t count; /* ever written */
};
/* room 0 = nothing is kept. NO_MEMORY */
enum pen_status job_traces_ring_init(struct job_traces_ring *ring, uint32_t room);
void job_traces_ring_fini(struct job_traces_ring *ring);
void job_traces_ring_add(struct job_traces_ring *ring, const struct job_trace *trace); /* shares its layers */
/* The newest trace with that id; NULL = none. */
const struct job_trace *life_find(const struct job_trace *rows, uint32_t count, struct job_id id);

#define METRICS_RATE_S 15.0

struct metrics {
    struct tenant_tally tenants[METRICS_TENANTS_MAX + 1];
    uint32_t models_count, series_count, tenants_count; /* row 0 included */
    struct job_traces recent, errors, slow;             /* slow: in no order */
    struct job_traces_ring kept;
    int64_t unix_offset_us; /* broker's clock + this = microseconds since 1970; looked up once a second */
    uint64_t slow_floor_us; /* a job faster than this is not among the slowest */
    uint64_t beat_us;
    struct model_tally models[METRICS_MODELS_MAX + 1]; /* rows beyond the counts are never written or read */
    struct series_tally series[METRICS_SERIES_MAX + 1];
};

struct metrics *metrics_new(
    uint64_t now_us); /* NULL without memory; nothing is kept until job_traces_ring_init(&metrics->kept) */
void metrics_free(struct metrics *metrics); /* NULL is fine */

/* Find or make; row 0 beyond the cap. Searches: callers keep the pointer. */
struct model_tally *metrics_model(struct metrics *metrics, const char *name, uint64_t version);
struct series_tally *metrics_series(struct metrics *metrics, struct model_tally *model, const char *backend,
                                    enum precision precision);
struct tenant_tally *metrics_tenant(struct metrics *metrics, uint32_t number, const char *name);

/* A batch of `jobs` was sent; reason: why it closed, CLOSE_FIRST to CLOSE_LAST. */
void series_batch(struct series_tally *series, uint32_t jobs, enum close_reason reason);
/* A worker ran `jobs` together; it took `us` where `expect_us` were foreseen. */
void series_run(struct series_tally *series, uint32_t jobs, uint64_t expect_us, uint64_t us);
/*
 * A job has ended: counts it and keeps its trace among the recent, the slow and the failed, and with `keep` also in the
 * ring. series: NULL when no worker had the job. Takes over the trace's reference to its layers.
 */
void metrics_end(struct metrics *metrics, struct model_tally *model, struct series_tally *series,
                 const struct job_trace *trace, bool keep);

/* About once a second: updates the means and drops old traces. */
void metrics_beat(struct metrics *metrics, uint64_t now_us);

/*
 * How many workers would serve this demand: `busy` slots at work, `backlog_us` of slot time waiting, `slots` slots per
 * worker. The aim: slots are busy for at most 70 % of the time, and the backlog is done within 10 s.
 */
uint32_t demand_workers(double busy, uint64_t backlog_us, double slots);

#endif
