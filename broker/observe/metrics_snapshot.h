/*
 * metrics_snapshot.h - a copy of all data for pages and scrapes. The loop makes it in one go; HTTP threads read it
 * without haste.
 *
 * Rows are plain data without pointers into the broker, so nothing changes while a thread reads.
 * Threads: snapshot_take: owner; a taken snapshot: any, read only.
 */
#ifndef METRICS_SNAPSHOT_H
#define METRICS_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "failure.h"
#include "metrics.h"
#include "otlp.h"
#include "stats.h"

struct broker;

#define SNAPSHOT_NONE UINT32_MAX

/* A model that is known now. */
struct model_row {
    char name[METRICS_NAME_BYTES];
    uint64_t version, queued, queued_bytes, running;
    uint32_t offers, ready;   /* offers; ready: those whose workers may be given work */
    uint32_t tally;           /* its index in `tallies`; SNAPSHOT_NONE before its first job */
    uint32_t rows_max, forms; /* rows_max of the newest offer; forms: in how many forms it is offered */
};

struct worker_row {
    char name[64], host[64], backend[32], device[64], software[48];
    const char *state; /* "ready", "draining", "suspect"; a literal */
    uint64_t uuid;
    uint32_t slots, threads, jobs_running, offers;
    uint64_t jobs_done, jobs_failed, jobs_cancelled, results_bad, backlog_us, age_us, last_seen_us;
    struct worker_beat beat; /* from the last heartbeat */
    double busy_share;       /* of the time of its slots */
    uint32_t failures_count; /* models that it has on disk and does not serve as they are now */
};

/* One such model, with the worker's sentence; at most FAILURES_LISTED. */
struct failure_row {
    uint32_t worker; /* index of its row */
    enum pen_status status;
    bool serving; /* it still serves the model in its older form */
    uint64_t version, since_unix_us;
    char name[FAILURE_NAME_BYTES + 1], text[FAILURE_TEXT_BYTES + 1];
};

struct offer_row {
    uint32_t worker, model; /* indexes of rows */
    uint32_t expect_us;     /* for a batch of one */
    enum precision precision;
    bool busy;                /* the worker has no credit for more work now */
    bool measured, measures;  /* its error is known; it is not yet, and will be */
    double error, error_mean; /* relative, the largest and the mean, once they are known; infinity: no number says it */
    uint32_t error_inputs;    /* sets of inputs */
    char error_source[16];
};

struct snapshot {
    uint64_t taken_us, started_us, uuid; /* broker's clock */
    bool previews;                       /* the broker keeps pictures for the dashboard */
    bool keys_bad, draining, ready;      /* ready: the broker takes jobs, and some worker may be given work */
    struct stats stats;
    uint64_t queued, queued_bytes, running, clients, live;
    uint64_t kept_count, kept_bytes, dropped_unsent;
    uint64_t clients_in, clients_out, workers_in, workers_out; /* bytes */
    uint64_t rss_bytes, labels_mismatched, usage_failures;
    struct cache_report cache;

    struct model_row *models;
    struct worker_row *workers;
    struct offer_row *offers;
    struct failure_row *failures;
    struct model_tally *tallies;
    struct series_tally *series; /* their `model` points into `tallies` */
    struct tenant_tally *tenants;
    uint32_t models_count, workers_count, offers_count, failures_count, tallies_count, series_count, tenants_count;
    struct job_traces recent, errors, slow; /* each row shares its layers */
    struct job_traces_ring kept;
    int64_t unix_offset_us; /* of metrics.h */
    struct otlp_report otlp;

    unsigned users; /* used by metrics_post.c alone */
};

struct snapshot *snapshot_take(const struct broker *broker); /* NULL without memory */
void snapshot_free(struct snapshot *snapshot);               /* NULL is fine */

/* version 0 = the highest that a worker is ready for, else the highest known; NULL = unknown. */
const struct model_row *snapshot_model(const struct snapshot *snapshot, const char *name, uint64_t version);

/* Why some worker does not serve the model that lies on its disk; version 0 = any. NULL = no worker says so. */
const struct failure_row *snapshot_failure(const struct snapshot *snapshot, const char *name, uint64_t version);

/* The kept trace of that job; NULL = none. */
const struct job_trace *snapshot_life(const struct snapshot *snapshot, struct job_id id);

/* How many workers a series needs (metrics.h), with its share of the model's queue. */
uint32_t snapshot_desired(const struct snapshot *snapshot, uint32_t series);

#endif
