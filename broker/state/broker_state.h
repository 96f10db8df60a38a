/*
 * broker_state.h - all that the broker knows, composed of its rooms' own structs.
 *
 * One thread owns everything in here. Time comes from a function pointer and messages leave through the two ports, so tests drive the whole
 * logic without sockets and without waiting.
 * Threads: owner.
 */
#ifndef BROKER_STATE_H
#define BROKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "course.h"
#include "decision.h"
#include "effect.h"
#include "fleet.h"
#include "single_flight.h"
#include "frame.h"
#include "headroom.h"
#include "heap.h"
#include "keyring.h"
#include "job.h"
#include "label.h"
#include "parked.h"
#include "metrics.h"
#include "model.h"
#include "neighbour.h"
#include "options.h"
#include "port.h"
#include "quarantine.h"
#include "session.h"
#include "shadow.h"
#include "stats.h"
#include "tensor_codec.h"
#include "transfer_end.h"
#include "usage.h"

#define IGNORED_PEERS 64u

/* Peers that speak another major version: told once, then ignored. The oldest entry is overwritten. */
struct ignored {
    uint32_t peers[IGNORED_PEERS];
    uint32_t count;
};

struct ensembles;
struct arrival_log;
struct cluster;
struct detached_store;
struct fleet_orders;
struct otlp;
struct post;
struct previews;
struct sequences;
struct usage_file;

/* Copies the trace of a job that has ended. series: NULL when no worker had it. */
typedef void (*trace_sink)(struct otlp *otlp, const struct job_trace *trace, const struct model_tally *model,
                           const struct series_tally *series, int64_t unix_offset_us);

struct broker {
    const struct options *options;
    uint64_t (*clock)(void);
    uint64_t now_us; /* read once per message */
    uint64_t uuid, started_us;

    struct effects effects;                         /* effects of the event that is being handled */
    const struct job_course *courses[COURSE_COUNT]; /* how jobs run */
    const struct job_owner *owners[OWNERS_MAX];     /* called at the ends of jobs */
    struct port *clients, *workers;                 /* borrowed */
    struct ignored clients_ignored, workers_ignored;
    struct jobs jobs;
    struct sessions sessions;
    struct models models;
    struct fleet fleet;
    struct table flights;
    struct heap deadlines;
    struct job_list lookups; /* jobs that wait for Redis, oldest first */
    struct parked parked;    /* jobs that came before their workers */
    struct transfer_hub transfers;
    struct cache *cache;
    struct stats stats;
    struct metrics *metrics;
    struct usage *usage;           /* of each tenant, hour by hour */
    struct usage_file *usage_file; /* borrowed; where it is kept (--usage-dir); NULL = nowhere */
    struct quarantine *quarantine;
    struct labels labels;              /* names for versions */
    struct shadow shadow;              /* jobs that are copied to another version */
    struct neighbours neighbours;      /* other brokers of the pool */
    struct cluster *cluster;           /* borrowed; state shared by the brokers of one Redis; NULL = none */
    struct fleet_orders *fleet_orders; /* orders that workers carry out */
    struct sequences *sequences;       /* sequences: jobs that use the state that a worker keeps */
    struct ensembles *ensembles;       /* ensembles whose steps run as jobs of their own */
    struct detached_store *detached;   /* detached jobs; NULL = not accepted */
    struct keyring *keyring;           /* borrowed; NULL = no peer needs a key */
    struct headroom *headroom;         /* borrowed; NULL = memory is not watched */
    struct audit *audit;               /* borrowed; NULL = the log alone */
    struct explain_ring explain;       /* of jobs that have ended */
    struct arrival_log *arrival_log;   /* when jobs came; NULL = nobody wants to know */
    struct otlp *otlp;                 /* to the exporter of traces; NULL = none */
    trace_sink trace_push;             /* gives otlp a kept trace; set when otlp is */
    uint64_t trace_turn;               /* every --trace-sample-th job is kept */
    struct post *post;                 /* to the HTTP threads; NULL = none */
    struct previews *previews;         /* the last pictures, for the dashboard; NULL = none are kept */

    struct meta_arena arena; /* for the message that is being handled */
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct raw_frame raws[FRAME_MAX_TENSORS];

    uint64_t arrivals, drops_reported;
    uint64_t live;         /* jobs that are not done */
    uint64_t queued_bytes; /* bytes of the requests that wait */
    uint32_t pass;         /* number of scheduling passes */
    bool schedule;         /* something changed: lanes may move */
    bool keys_bad;         /* the file of --keys was refused: the last good list is in force */
    bool draining;
    uint64_t drain_refuse_us; /* new jobs are refused from here on */
    uint64_t drain_end_us;    /* unfinished jobs are then answered UNAVAILABLE */
    uint64_t beat_us;         /* when the slow checks run next */
    uint64_t probe_us;        /* when the next probe is due; UINT64_MAX = none */
    uint64_t wake_us;         /* when a batch closes by time */
    uint64_t usage_us;        /* when usage is written next */
    uint64_t hedge_us;        /* when late jobs are looked for */
};

/* Payloads of this many bytes or more may be announced, so that the digest can be looked up before they are sent; 0:
   nothing could be answered early. */
static inline uint64_t digest_first_bytes(const struct broker *broker)
{
    return cache_enabled(broker->cache) && broker->options->bulk_from > 0 ? (uint64_t)broker->options->digest_first : 0;
}

#endif
