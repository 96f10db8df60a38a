/*
 * core.h - what a client consists of; plain data shared by the rooms above.
 *
 * One lock covers everything but the socket. The socket belongs to whoever set `driving` (drive.h), or, while nobody has, to whoever holds
 * the lock; every change of hands passes through the lock, which is the full fence ZeroMQ asks for.
 * Threads: fields under the lock unless marked.
 */
#ifndef CORE_H
#define CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "endpoints.h"
#include "link.h"
#include "parcel.h"
#include "pending.h"
#include "predecessors.h"
#include "penstock/client.h"
#include "session_state.h"
#include "spin.h"
#include "transfers.h"

struct ask;    /* session/questions.h: a question to the broker */
struct waiter; /* drive/waiters.h: a thread that waits while another drives */

struct pen_client {
    atomic_uint references; /* the handle, and each job: client_ref.h */
    pthread_mutex_t lock;
    struct endpoints brokers;       /* constant after connect */
    char *endpoint, *name, *tenant; /* constant; endpoint as it was given, for people */
    int64_t unreachable_us;         /* constant, as are the limits */
    uint64_t grace_us, bytes_max;
    uint32_t jobs_max;
    bool tell_drain;
    bool stays; /* goes to no other broker where one is busy */

    struct link link;
    struct session session;
    struct pending pending;
    struct predecessors predecessors;
    struct transfers transfers;
    struct parcel_link parcels; /* to a broker on this host: session/parcels.h */
    uint64_t sealed_from;       /* payloads of more bytes may go there; 0 = none */
    unsigned sealed_lost;       /* in a row: connections on which sealed payloads led to nothing */
    struct ask *asks;
    struct pen_model_list *known; /* models, as pen_client_picture() asked for them last; NULL: not kept, or in use */
    uint64_t known_us;            /* when that was; 0: they have changed since */
    uint64_t asks_serial;
    struct pen_client_counters counters;

    bool driving; /* somebody owns the socket outside the lock */
    bool closing;
    struct waiter *waiters;
    struct spin spin;   /* the driver's */
    atomic_bool nudged; /* the driver is to look at the queues; any thread */
    pthread_t keeper;
    pthread_cond_t keeper_cond;
    uint64_t keeper_until_us;  /* it sleeps until then */
    bool keeper_drives;        /* pen_client_fd() was asked for */
    bool loop_drives;          /* pen_client_loop_fd() was */
    bool loop_busy, ring_owed; /* pen_client_loop_busy(); the descriptors may have told of messages that nobody read */

    struct pen_job *ordered, **ordered_tail;   /* jobs with PEN_JOB_ORDERED that are not told yet, oldest first */
    struct pen_job *finished, **finished_tail; /* ended, callbacks to run */
    size_t finished_count;
    bool finished_any;
    bool dispatching; /* who moves the session runs the callbacks next: nobody need be told */
    bool rung;        /* finished_fd can be read */
    int finished_fd;  /* eventfd behind pen_client_fd() and pen_client_loop_fd(); -1 until asked for */
};

#endif
