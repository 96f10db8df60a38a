/*
 * stats.h - what the broker counts. Plain data; only the owner writes. Threads: owner.
 */
#ifndef STATS_H
#define STATS_H

#include <stdint.h>

#include "loss.h"

struct stats {
    uint64_t early_hits; /* answered before their payload was sent */
    /* An admitted job ends done, failed (expired: of these), cancelled or handed. */
    uint64_t jobs_admitted, jobs_done, jobs_failed, jobs_rejected, jobs_expired, jobs_cancelled, jobs_requeued,
        jobs_coalesced;
    uint64_t jobs_held_cold, jobs_held_unserved; /* admitted while their model slept; while it had no worker */
    uint64_t results_duplicate;                  /* late or repeated results, ignored */
    uint64_t results_bad;   /* results that break the protocol: their jobs ended CORRUPT or INTERNAL */
    uint64_t digests_wrong; /* results whose digest, recomputed by the worker, differs from the client's: not stored */
    uint64_t cache_hits, cache_misses;
    uint64_t workers_lost, clients_lost;
    uint64_t losses[LOSS_COUNT];              /* lost workers, by the kind of loss */
    uint64_t workers_slow;                    /* times that a worker became slow */
    uint64_t jobs_dispatched;                 /* jobs sent to workers; a job that is sent again counts again */
    uint64_t jobs_hedged, hedges_won;         /* hedges sent; hedges that answered first */
    uint64_t quarantined, quarantine_refused; /* jobs */
    uint64_t memory_refused;                  /* jobs turned away near the memory limit */
    uint64_t detached_taken, detached_again;  /* jobs taken from Redis; those that another broker had begun */
    uint64_t detached_duplicates;             /* detached results that came second and were thrown away */
    uint64_t chunks_in, chunks_out;           /* of large payloads, on bulk connections */
    uint64_t clients_redirected;              /* sent to another broker */
    uint64_t jobs_handed, jobs_taken_over;    /* to another broker while this one drained; from one that did */
    uint64_t load, neighbours;                /* now: in thousandths of busy; other brokers that answer */
    uint64_t sealed_in, sealed_out;           /* payloads that came and went as sealed memory */
    uint64_t sealed_fallbacks;                /* payloads in sealed memory that were sent as bytes */
    uint64_t busy_waits;                      /* busy waits of the loop before it slept (--spin) */
    uint64_t messages_bad;                    /* dropped: malformed, not our protocol, or unexpected */
};

uint64_t stats_rss_bytes(void); /* of this process; 0 when unknown */

#endif
