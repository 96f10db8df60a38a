/*
 * core.h - what a client consists of; plain data shared by the modules below it.
 *
 * One lock covers everything but the socket. The socket belongs to whoever set `driving` (drive.h), or, while nobody has, to whoever holds
 * the lock; every change of hands passes through the lock, which is the full fence ZeroMQ asks for.
 * Threads: fields under the lock unless marked.
 */
#ifndef CORE_H
#define CORE_H

#define DETACHED_SECRET_MAX 128 /* bytes of the text that opens a detached job's lock */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "endpoints.h"
#include "link.h"
#include "pending.h"
#include "predecessors.h"
#include "penstock/client.h"
#include "spin.h"
#include "transfer.h"

struct ask;    /* ask.h: a question to the broker */
struct waiter; /* drive.h: a thread that waits while another drives */

enum session_state {
    SESSION_HELLO,   /* hello sent or to be sent, no welcome yet */
    SESSION_READY,   /* welcomed */
    SESSION_REFUSED, /* the broker will never have us */
};

/* Where we stand with the broker: session.h. Times are absolute. */
struct session {
    enum session_state state;
    bool settled;       /* not SESSION_HELLO; what pen_client_wait_ready() waits for */
    uint64_t uuid;      /* kept over reconnects: first half of job ids */
    size_t broker;      /* index of the one that is spoken to, or tried */
    uint64_t opened_us; /* present socket */
    uint64_t reopen_us; /* not before; DEADLINE_NONE: not wanted */
    uint64_t lost_us;   /* since when there is no broker */
    size_t unanswered;  /* hellos in a row */
    uint64_t sent_us, heard_us;
    uint64_t heartbeat_us, liveness_us;
    uint64_t frame_bytes_max, job_bytes_max; /* the broker's; 0 = unknown */
    enum digest_kind digest_kind;
    bool welcomed;           /* ever: a broker that denies us now may have lost its list of keys, and is asked again */
    bool leaving;            /* this broker is about to end and there are others: it gets no new jobs */
    uint64_t leave_us;       /* when leaving: not later than this */
    size_t left;             /* leaving brokers in a row: when all of the list leave, the one at hand is kept */
    bool draining;           /* this broker is about to end, and there is no other */
    uint64_t held_us;        /* since when it takes no more jobs, so they wait for the next one; 0: it does */
    uint32_t unacknowledged; /* results since the last ACK */
    uint64_t unacknowledged_bytes;
    uint64_t acknowledge_us;     /* when the ACK is due; DEADLINE_NONE */
    bool detached;               /* the broker takes detached jobs */
    uint8_t broker_minor;        /* of the protocol, as its welcome said */
    uint64_t digest_first_bytes; /* payloads of more may be announced for the sake of their digest; 0 = not */
    uint64_t bulk_bytes;         /* larger payloads go in chunks; 0 = none do */
    bool cancels_waiting;
    bool drop_wanted;         /* a new connection, to drop borrowed bytes that lie unsent in the old one */
    struct pen_error refusal; /* why SESSION_REFUSED */
    char trouble[256];        /* what went wrong on the way to a welcome, for the error text */
};

struct pen_client {
    atomic_uint references; /* the handle, and each job */
    pthread_mutex_t lock;
    struct endpoints brokers;       /* constant after connect */
    char *endpoint, *name, *tenant; /* constant; endpoint as it was given, for people */
    int64_t unreachable_us;         /* constant, as are the limits */
    uint64_t grace_us, bytes_max;
    uint32_t jobs_max;
    bool tell_drain;

    struct link link;
    struct session session;
    struct pending pending;
    struct predecessors predecessors;
    struct transfers transfers;
    struct ask *asks;
    uint64_t asks_serial;
    struct pen_client_counters counters;

    bool driving; /* somebody owns the socket outside the lock */
    bool closing;
    struct waiter *waiters;
    struct spin spin;   /* the driver's */
    atomic_bool nudged; /* the driver is to look at the queues; any thread */
    pthread_t keeper;
    pthread_cond_t keeper_cond;
    uint64_t keeper_until_us; /* it sleeps until then */
    bool keeper_drives;       /* pen_client_fd() was asked for */

    struct pen_job *ordered, **ordered_tail;   /* jobs with PEN_JOB_ORDERED that are not told yet, oldest first */
    struct pen_job *finished, **finished_tail; /* ended, callbacks to run */
    size_t finished_count;
    bool finished_any;
    int finished_fd; /* eventfd behind pen_client_fd(); -1 until asked for */
};

struct pen_client *client_retain(struct pen_client *client);
void client_release(struct pen_client *client);

#endif
