/*
 * broker.h - the broker's state and its clockwork; front, back, dispatch, answer and control act on it.
 *
 * One thread owns everything in here. Time comes from a function pointer and messages leave through the two ports, so tests drive the whole
 * logic without sockets and without waiting. broker.c owns its beginning and end, what is sent, losses and the drain; clockwork.c what happens
 * by time: deadlines, probes, heartbeats, grace, ages.
 * Threads: owner.
 */
#ifndef BROKER_H
#define BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "explain.h"
#include "fleet.h"
#include "flight.h"
#include "frame.h"
#include "headroom.h"
#include "heap.h"
#include "keyring.h"
#include "job.h"
#include "label.h"
#include "lobby.h"
#include "metrics.h"
#include "model.h"
#include "options.h"
#include "errand.h"
#include "port.h"
#include "quarantine.h"
#include "session.h"
#include "stats.h"
#include "tensor_codec.h"
#include "transfer.h"

#define IGNORED_PEERS 64u

/* Peers that speak another major version: told once, then ignored. The oldest entry is overwritten. */
struct ignored {
    uint32_t peers[IGNORED_PEERS];
    uint32_t count;
};

struct cascades;
struct commons;
struct sequences;

struct broker {
    const struct options *options;
    uint64_t (*clock)(void);
    uint64_t now_us; /* read once per message */
    uint64_t uuid, started_us;

    struct port *clients, *workers; /* borrowed */
    struct ignored clients_ignored, workers_ignored;
    struct jobs jobs;
    struct sessions sessions;
    struct models models;
    struct fleet fleet;
    struct table flights;
    struct heap deadlines;
    struct job_list lookups; /* asked of Redis, oldest first */
    struct lobby lobby;      /* came before their workers */
    struct transfer_hub transfers;
    struct cache *cache;
    struct stats stats;
    struct metrics *metrics;
    struct quarantine *quarantine;
    struct labels labels;        /* names for versions */
    struct commons *commons;     /* borrowed; what brokers of one Redis share; NULL = there is none */
    struct errands *errands;     /* that workers carry out */
    struct sequences *sequences; /* jobs that belong to the state that a worker keeps */
    struct cascades *cascades;   /* ensembles whose steps run apart */
    struct depot *depot;         /* detached jobs; NULL = none are taken */
    struct keyring *keyring;     /* borrowed; NULL = nobody is asked for a key */
    struct headroom *headroom;   /* borrowed; NULL = memory is not watched */
    struct audit *audit;         /* borrowed; NULL = the log alone */
    struct explain_ring explain; /* of jobs that have ended */
    struct otlp *otlp;           /* to the exporter of traces; NULL = none */
    uint64_t trace_turn;         /* every --trace-sample-th job is kept */
    struct post *post;           /* to the HTTP threads; NULL = none */

    struct meta_arena arena; /* of the message in hand */
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct raw_frame raws[FRAME_MAX_TENSORS];

    uint64_t arrivals, drops_reported;
    uint64_t live;         /* jobs that are not done */
    uint64_t queued_bytes; /* requests of those that wait */
    uint32_t pass;         /* number of scheduling passes */
    bool schedule;         /* something changed: lanes may move */
    bool keys_bad;         /* the file of --keys was refused: the last good list is in force */
    bool draining;
    uint64_t drain_refuse_us; /* new jobs are refused from here on */
    uint64_t drain_end_us;    /* what is unfinished then is answered UNAVAILABLE */
    uint64_t beat_us;         /* when the slow checks run next */
    uint64_t probe_us;        /* when a probe is due; UINT64_MAX = none runs */
    uint64_t wake_us;         /* when a batch closes by time */
    uint64_t hedge_us;        /* when late jobs are looked for */
};

/* `options`, `cache` (may be NULL) are borrowed; the ports are filled in by the caller. */
enum pen_status broker_init(struct broker *broker, const struct options *options, struct cache *cache,
                            uint64_t (*clock)(void));
void broker_fini(struct broker *broker); /* jobs and sessions go without a word */

/* Whatever is due now: deadlines, probes, silence, grace, ages, batches that close by time. */
void broker_tick(struct broker *broker);
/* Gives back what tables and lists of a burst hold no more: in a quiet time, for it takes a look at each record. */
void broker_settle(struct broker *broker);
/* When broker_tick has something to do next. */
uint64_t broker_next_us(const struct broker *broker);

/* A connection was lost somewhere: look for it among workers / clients. */
void broker_hint_workers(struct broker *broker, int fd);
void broker_hint_clients(struct broker *broker, int fd);

/* While draining: the client is told, so that one with several brokers goes to another. */
void broker_tell_drain(struct broker *broker, struct session *session);
/* SIGTERM or `penstock drain`. */
void broker_drain(struct broker *broker);
bool broker_drained(const struct broker *broker); /* nothing is left to answer, or to send: the program may end */

/* Drops a connection's session from life: grace first, or at once. Its jobs are cancelled. */
void broker_session_end(struct broker *broker, struct session *session, const char *reason);
/* The worker is no candidate for work any more. */
void broker_worker_closes(struct broker *broker, struct worker *worker);
/*
 * A message to it could not be sent: its connection has ended. It is given up when what it had said before that was read, which may be its answers, or
 * its GOODBYE: at once where nothing can wait to be read.
 */
void broker_worker_ended(struct broker *broker, struct worker *worker);
bool broker_worker_over(const struct broker *broker, const struct worker *worker); /* it ended, and all was read */
/* The worker is gone: its jobs are queued again or answered. */
void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss);

/* Takes a worker out of the fleet; jobs it held are queued again. suspect: they may be what ended it. */
void broker_worker_leave(struct broker *broker, struct worker *worker, bool suspect);

/* Sends to a session or worker and accounts for it; false = gone (and taken note of, for sessions). */
bool broker_send_client(struct broker *broker, struct session *session, struct envelope *env, const void *meta,
                        size_t bytes);
bool broker_send_worker(struct broker *broker, struct worker *worker, struct envelope *env, const void *meta,
                        size_t bytes);

/* Its connection proved to be gone: the grace window begins. */
void broker_client_gone(struct broker *broker, struct session *session);
/* PINGs the client when the answer would tell how far it has read. */
void broker_mark_client(struct broker *broker, struct session *session);

/* Tells a peer of another major version so, once; it is ignored from then on. */
void broker_refuse_version(struct broker *broker, struct port *port, struct ignored *ignored, uint32_t peer,
                           const char *text);
bool broker_ignores(const struct ignored *ignored, uint32_t peer); /* it was told so */
/* The file of --keys has changed: whoever may no longer come in is shown out. */
void broker_keys_changed(struct broker *broker);
/* WELCOME with the broker's settings, or with a reason. */
void broker_welcome(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status, const char *text);
/* RESUME: the peer is not known, or not trusted any more, and is to say hello again. */
void broker_resume(struct broker *broker, struct port *port, uint32_t peer);

#endif
