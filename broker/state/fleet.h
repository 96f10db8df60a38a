/*
 * fleet.h - the workers: who they are, what they offer, what they hold, how much more they may be given.
 *
 * Credit: a worker holds up to two messages per slot (one runs, one is prefetched, when the running one has at most PREFETCH_US to go: until then
 * somebody more urgent may come); of short work up to 64 jobs or 2 ms of expected time per slot.
 * A worker that other brokers use, too, may grant less (worker_shared).
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
#define WORKER_META_BYTES (16u * 1024u * 1024u)  /* a hello unpacked; its packed form is at most 4 MiB */
#define CREDIT_MESSAGES   2u                     /* per slot */
#define CREDIT_JOBS       64u                    /* per slot */
#define CREDIT_US         2000u                  /* per slot */
#define PREFETCH_US       1000u                  /* several round trips on a LAN: the slot does not idle */
#define CREDIT_BYTES      (256u * 1024u * 1024u) /* per worker, unless it holds nothing */

enum worker_state { WORKER_READY, WORKER_DRAINING };

/* A job of a dispatch. */
struct dispatch_slot {
    struct job_id id; /* as the worker knows it */
    struct job *job;  /* NULL: cancelled, expired, or the client has gone */
    struct cost cost; /* of who began the run, until it is over */
    uint32_t rows;    /* of its batch */
    bool answered;
};

/* One message to a worker; it counts against the credit until each of its jobs was answered, wanted or not. */
struct dispatch {
    TAILQ_ENTRY(dispatch) in_worker;
    struct worker *worker;
    struct offer *offer; /* NULL: withdrawn meanwhile */
    struct digest model_digest;
    struct signature *signature; /* of the form in which the worker offered the model then; retained */
    const char *reason;          /* why the batch closed */
    struct series_tally *series;
    uint64_t sent_us, expect_us, end_us; /* end_us: when it should be done, by the forecast */
    size_t bytes;
    uint32_t count, open; /* slots, and those not answered */
    uint32_t rows;
    /* a row by the forecast: where it is quickest, which is what it costs, and on this worker */
    uint64_t row_us, own_row_us;
    bool computed;            /* at least one of its jobs was answered with a result */
    bool isolated;            /* its worker gets nothing beside it: a suspect's last chance */
    bool others;              /* but another broker's jobs, as far as is known (worker_shared, worker_alone) */
    struct decision decision; /* what was weighed */
    struct dispatch_slot slots[];
};
TAILQ_HEAD(dispatch_list, dispatch);

struct worker {
    struct link link;
    TAILQ_ENTRY(worker) in_fleet;
    uint64_t uuid, since_us;
    enum worker_state state;
    struct effect ended;           /* EFFECT_WORKER_ENDED */
    uint64_t ended_us, ended_mark; /* its connection proved to be gone then, 0 = no; mark: port.emptied by then */
    struct meta_arena hello_arena;
    struct meta_arena update_arena[2]; /* the older update lives until the newer one has replaced its offers */
    unsigned update_turn;
    Penstock__WorkerHello *hello;
    uint32_t slots;
    char *tags; /* each followed by '\n' */
    struct offer **offers;
    size_t offers_count;
    Penstock__ModelFailure **failures; /* failure.h: [failures_listed], in the hello or the last update */
    uint32_t failures_listed, failures_count;
    struct offer *warming;           /* the cold one that it was asked to load; NULL = none */
    struct dispatch_list dispatches; /* oldest first */
    uint32_t messages, jobs;         /* unanswered */
    uint64_t expect_us;              /* of the unanswered */
    size_t bytes;
    uint64_t jobs_done, jobs_failed, jobs_cancelled;
    uint64_t results_bad;      /* against the contract (worker_result.c) */
    bool isolated;             /* it runs a suspect that must be alone */
    bool paused;               /* nothing of ours has begun: it runs another broker's suspect alone */
    struct identity *identity; /* NULL: nobody is asked for a key */
    struct transfer_end transfers;
    bool slow;              /* its oldest run lasts far longer than expected */
    uint32_t reserved_pass; /* scheduling pass in which it is kept for a suspect or a more urgent job */
    struct worker_beat {
        uint64_t rss_bytes, oldest_running_us, cpu_us, compute_us, memory_bytes, memory_used_bytes;
        uint32_t slots_busy, queued, models_warm, models_cold;
        uint64_t models_loaded, models_evicted;
    } beat;                            /* of the last heartbeat */
    uint32_t credit;                   /* messages per slot that it takes from us; 0 = CREDIT_MESSAGES */
    struct bandwidth bandwidth;        /* of payloads on their way */
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
};

enum pen_status fleet_init(struct fleet *fleet, struct models *models); /* NO_MEMORY */
void fleet_fini(struct fleet *fleet); /* frees all workers, and what they were given */

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
/* What goes to operators' terminals, by logs, lists and pages: control characters become '?'. */
void fleet_clean(char *text);
/* What was measured of the older record of the same process serves the newer one. */
void fleet_inherit(struct worker *worker, const struct worker *old);
/* Withdraws its offers and frees it; its dispatches must have been taken back. */
void fleet_leave(struct fleet *fleet, struct worker *worker, uint64_t now_us);

/* What a worker of several brokers says of its other work: `credit` beyond CREDIT_MESSAGES counts as that, hours of work as one. True: it takes more now. */
bool worker_shared(struct worker *worker, uint32_t credit, uint64_t elsewhere_us);
/*
 * What a worker that honours FRAME_FLAG_ALONE says: the job that it runs alone now, {0} = none, and whether it does that for another broker. True: it
 * takes work again.
 */
bool worker_alone(struct worker *worker, struct job_id alone, bool paused);
/* A job that asks for that may go to this worker by this offer: it takes work, and is what is asked for. demand NULL: any job. */
bool offer_serves(const struct offer *offer, const struct demand *demand);
/* Some worker serves such jobs of the model. */
bool model_served(const struct model *model, const struct demand *demand);
/* Other brokers have work there, or had a moment ago. */
bool worker_has_others(const struct worker *worker);
/* Bytes of jobs that may be there at a time; one job alone may have more. */
size_t worker_bytes_max(const struct worker *worker);
/*
 * grows: of a batch that more jobs may join until the slot needs it. ret_when_us: where it has none now, when it is expected to have some by the time
 * alone; UINT64_MAX = when it has answered something.
 */
bool worker_credit(const struct worker *worker, uint64_t now_us, uint64_t expect_us, size_t bytes, bool grows,
                   uint64_t *ret_when_us);
/* How long until its first slot should be free; 0 = one is. */
uint64_t worker_free_us(const struct worker *worker, uint64_t now_us);
/* Of its work, per slot; the age of its oldest dispatch when that is more. */
uint64_t worker_backlog_us(const struct worker *worker, uint64_t now_us);

/* A dispatch of `count` empty slots; NULL without memory. It is the worker's from dispatch_send on. */
struct dispatch *dispatch_new(size_t count);
/* It is under way to the offer's worker, filled, and counts against that one's credit; the message itself is the caller's. */
void dispatch_send(struct dispatch *dispatch, struct offer *offer, uint64_t now_us);
/* The slot was answered: returns true when it was the last, and the dispatch is freed. */
bool dispatch_answer(struct dispatch *dispatch, uint32_t slot);
void dispatch_free(struct dispatch *dispatch);    /* takes it off its worker */
void dispatch_discard(struct dispatch *dispatch); /* one that was never sent */
/*
 * The unanswered slot by the id that the worker knows; false = it does not hold that job. A job that was cancelled and sent again may run twice on
 * one worker, the first time for nobody: of several slots one whose job is awaited, or is not, goes first.
 */
bool worker_holds(const struct worker *worker, struct job_id id, bool awaited, struct dispatch **ret_dispatch,
                  uint32_t *ret_slot);

#endif
