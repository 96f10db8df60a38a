/*
 * fleet.h - the workers: who they are, what they offer, what they hold, how much more they may be given.
 *
 * Credit: a worker may hold up to two messages per slot. One runs; the other one is sent when the first has at most
 * PREFETCH_US to go, because until then a more urgent job may come. Of short jobs a worker may hold up to 64 or 2 ms of
 * expected time per slot. A worker that other brokers use as well may grant less (worker_shared).
 * Threads: owner. Pure: times are parameters.
 */
#ifndef FLEET_H
#define FLEET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "decision.h"
#include "effect.h"
#include "frame.h"
#include "job.h"
#include "link.h"
#include "model.h"
#include "bandwidth.h"
#include "tensor_codec.h"
#include "transfer_end.h"
#include "worker.pb-c.h"

#define WORKERS_MAX       1024u
#define WORKER_META_BYTES (16u * 1024u * 1024u)  /* limit for an unpacked hello; a packed one has at most 4 MiB */
#define CREDIT_MESSAGES   2u                     /* per slot */
#define CREDIT_JOBS       64u                    /* per slot */
#define CREDIT_US         2000u                  /* per slot */
#define PREFETCH_US       1000u                  /* several round trips on a LAN: the slot does not idle */
#define PREPARE_US_MAX    100000u                /* of decoding: jobs are bound to a worker at most so much earlier */
#define CREDIT_BYTES      (256u * 1024u * 1024u) /* per worker; a worker that holds nothing may get a larger job */

enum worker_state { WORKER_READY, WORKER_DRAINING };

/* A job of a dispatch. */
struct dispatch_slot {
    struct job_id id; /* as the worker knows it */
    struct job *job;  /* NULL: cancelled, expired, or the client has gone */
    struct cost cost; /* paid by the client that began the run, until it is over */
    uint32_t rows;    /* of its batch */
    bool answered;
};

/* One message to a worker. It counts against the credit until each of its jobs was answered, even if nobody wants
   the answer any more. */
struct dispatch {
    TAILQ_ENTRY(dispatch) in_worker;
    struct worker *worker;
    struct offer *offer; /* NULL: withdrawn in the meantime */
    struct digest model_digest;
    struct signature *signature; /* of the form in which the worker offered the model when it was sent; retained */
    enum close_reason reason;    /* why the batch closed */
    struct series_tally *series;
    uint64_t sent_us, expect_us, end_us; /* end_us: when it should be done, by the forecast */
    size_t bytes;
    uint32_t count, open; /* slots, and those not answered */
    uint32_t rows;
    /* expected time of one row: on the quickest worker, which is what the client pays, and on this worker */
    uint64_t row_us, own_row_us;
    bool computed;            /* at least one of its jobs was answered with a result */
    bool isolated;            /* a suspect's last chance: its worker gets nothing else beside it */
    bool others;              /* another broker's jobs may have run beside it (worker_shared, worker_alone) */
    struct decision decision; /* what was weighed */
    struct dispatch_slot slots[];
};
TAILQ_HEAD(dispatch_list, dispatch);

/* The jobs that shared a run with one of a dispatch. A worker composes batches behind its decoders: they may be fewer than were sent together, or of several
   dispatches. */
struct shared_run {
    uint32_t jobs, rows;
    bool counts; /* this result is the one by which the run is counted */
};
/* As the result tells it, within what the worker may run. Older workers do not tell it: they run what was sent together. */
struct shared_run dispatch_run(const struct dispatch *dispatch, const struct result_facts *facts);

struct worker {
    struct link link;
    TAILQ_ENTRY(worker) in_fleet;
    uint64_t uuid, since_us;
    enum worker_state state;
    struct effect joined, updated, drains, ended, left; /* EFFECT_WORKER_JOINED to _LEFT */
    uint64_t ended_us, ended_mark; /* when its connection ended, 0 = it has not; mark: port.emptied at that time */
    uint64_t unsent_us; /* its connection had ended then: what was dispatched from then on was never sent; 0 = no */
    struct meta_arena hello_arena;
    struct meta_arena update_arena[2]; /* the older update must live until the newer one has replaced its offers */
    unsigned update_turn;
    Penstock__WorkerHello *hello;
    uint32_t slots;
    char *tags; /* a list of tags and flags (tags.h) */
    struct offer **offers;
    size_t offers_count;
    Penstock__ModelFailure **failures; /* failure.h: [failures_listed], in the hello or the last update */
    uint32_t failures_listed, failures_count;
    struct offer *warming;           /* the cold offer that the worker was asked to load; NULL = none */
    struct dispatch_list dispatches; /* oldest first */
    uint32_t messages, jobs;         /* unanswered */
    uint64_t expect_us;              /* of the unanswered */
    size_t bytes;
    uint64_t jobs_done, jobs_failed, jobs_cancelled;
    uint64_t results_bad;      /* results that break the protocol (worker_result.c) */
    bool lost;                 /* it left without a word */
    bool isolated;             /* it runs a suspect that must be alone */
    bool paused;               /* none of our jobs has begun there: it runs another broker's suspect alone */
    struct identity *identity; /* NULL: nobody is asked for a key */
    struct transfer_end transfers;
    bool slow;              /* its oldest run takes far longer than expected */
    uint32_t reserved_pass; /* the scheduling pass in which it is reserved for a suspect or a more urgent job */
    struct worker_beat {
        uint64_t rss_bytes, oldest_running_us, cpu_us, compute_us, memory_bytes, memory_used_bytes;
        uint32_t slots_busy, queued, models_warm, models_cold;
        uint64_t models_loaded, models_evicted;
    } beat;                            /* of the last heartbeat */
    uint32_t credit;                   /* messages per slot that it takes from us; 0 = CREDIT_MESSAGES */
    struct bandwidth bandwidth;        /* of payloads on their way to it and back */
    uint64_t elsewhere_us;             /* expected work that it holds for other brokers, per slot */
    uint64_t busy_seen_us, busy_at_us; /* compute_us at the last look */
    double busy_share;                 /* of its slots, a mean over METRICS_RATE_S seconds */
};
TAILQ_HEAD(worker_list, worker);

struct fleet {
    struct models *models; /* borrowed */
    struct table by_peer;
    struct worker_list all;
    uint32_t count;
    uint32_t ended; /* workers whose connection is gone, but whose messages are still being read */
};

enum pen_status fleet_init(struct fleet *fleet, struct models *models); /* NO_MEMORY */
void fleet_fini(struct fleet *fleet);                                   /* frees all workers and their dispatches */

/* NULL: there is none. */
struct worker *fleet_by_peer(const struct fleet *fleet, uint32_t peer);
struct worker *fleet_by_uuid(const struct fleet *fleet, uint64_t uuid);
struct worker *fleet_by_name(const struct fleet *fleet, const char *name);
/* An older record of the same process. */
struct worker *fleet_other_by_uuid(const struct fleet *fleet, const struct worker *worker);

/* Reads a packed WorkerHello or says in a sentence what is wrong with it. */
enum pen_status fleet_join(struct fleet *fleet, const uint8_t *meta, size_t bytes, uint32_t peer, int fd,
                           uint64_t now_us, struct worker **ret_worker, struct pen_error *reterr);
/* Replaces the offers by a packed WorkerUpdate; what was measured of unchanged models stays. */
enum pen_status fleet_update(struct fleet *fleet, struct worker *worker, const uint8_t *meta, size_t bytes,
                             uint64_t now_us, struct pen_error *reterr);
/* Replaces control characters by '?', because the text goes to operators' terminals in logs, lists and pages. */
void fleet_clean(char *text);
/* The newer record takes over what was measured with the older record of the same process. */
void fleet_inherit(struct worker *worker, const struct worker *old);
/* Withdraws its offers and frees it; the caller has taken its dispatches back. */
void fleet_leave(struct fleet *fleet, struct worker *worker, uint64_t now_us);

/* A worker of several brokers tells about its other work. `credit` is cut to CREDIT_MESSAGES, `elsewhere_us` to one
   hour. True: the worker takes more now. */
bool worker_shared(struct worker *worker, uint32_t credit, uint64_t elsewhere_us);
/*
 * A worker that honours FRAME_FLAG_ALONE tells which job it runs alone now ({0} = none), and whether it does so for
 * another broker. True: it takes work again.
 */
bool worker_alone(struct worker *worker, struct job_id alone, bool paused);
/* What the offer is known to keep; borrows from it. */
struct capability offer_capability(const struct offer *offer);
/* Its error is being measured, and with a good one it would meet the demand: such jobs wait for the worker's update. */
bool offer_may_serve(const struct offer *offer, const struct demand *demand);
/* True when some offer may serve such jobs. */
bool model_may_serve(const struct model *model, const struct demand *demand);
/* True when a job with this demand may go to the offer's worker: the worker takes work and meets the demand. demand
   NULL: any job. */
bool offer_serves(const struct offer *offer, const struct demand *demand);
/* True when some worker serves such jobs of the model. */
bool model_served(const struct model *model, const struct demand *demand);
/* True when other brokers have work there, or had a moment ago. */
bool worker_has_others(const struct worker *worker);
/* How many bytes of jobs the worker may hold; a single job may be larger. */
size_t worker_bytes_max(const struct worker *worker);
/*
 * Whether the worker may get a dispatch now. grows: the batch is one that more jobs may join until the slot needs it.
 * prepare_us: what the worker does with it, beside the slots, before a slot can run it; it comes so much earlier.
 * *ret_when_us: without credit, when time alone should bring some; UINT64_MAX = only an answer of the worker will.
 */
bool worker_credit(const struct worker *worker, uint64_t now_us, uint64_t expect_us, uint64_t prepare_us, size_t bytes,
                   bool grows, uint64_t *ret_when_us);
/* Notes how long a job's pictures were decoded, for worker_credit. */
void offer_prepared(struct offer *offer, uint64_t decode_us);
/* Expected time until its first slot is free; 0 = one is free. */
uint64_t worker_free_us(const struct worker *worker, uint64_t now_us);
/* Expected time of its work, per slot; the age of its oldest dispatch when that is more. */
uint64_t worker_backlog_us(const struct worker *worker, uint64_t now_us);

/* A dispatch of `count` empty slots; NULL without memory. It is the worker's from dispatch_send on. */
struct dispatch *dispatch_new(size_t count);
/* Counts a filled dispatch against the credit of the offer's worker; the caller sends the message itself. */
void dispatch_send(struct dispatch *dispatch, struct offer *offer, uint64_t now_us);
/* The slot was answered. The last one frees the dispatch. */
void dispatch_answer(struct dispatch *dispatch, uint32_t slot);
void dispatch_free(struct dispatch *dispatch);    /* takes it off its worker */
void dispatch_discard(struct dispatch *dispatch); /* one that was never sent */
/* Which of two runs of the same id on one worker is meant. */
enum held {
    HELD_FOR_A_JOB,  /* somebody waits for it */
    HELD_FOR_NOBODY, /* its job has ended or was given up */
};
/*
 * Finds the unanswered slot by the id that the worker knows; false = the worker does not hold that job. A job that was
 * cancelled and sent again may run twice on one worker, and nobody waits for the first run. `held` says which run is
 * preferred when there are several.
 */
bool worker_holds(const struct worker *worker, struct job_id id, enum held meant, struct dispatch **ret_dispatch,
                  uint32_t *ret_slot);

#endif
