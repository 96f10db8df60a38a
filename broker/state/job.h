/*
 * job.h - the record of one job from SUBMIT until its reply is forgotten, and the table that finds it by id.
 *
 * States and their edges: broker/README.md. A job belongs to its session; lanes, dispatches and single flights only refer to it.
 * Threads: owner.
 */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "course.h"
#include "deadline.h"
#include "job_id.h"
#include "shared_message.h"
#include "table.h"
#include "trace.h"

enum job_state {
    JOB_LOOKUP,     /* queued: Redis is being asked for an answer */
    JOB_QUEUED,     /* queued: in its lane */
    JOB_HELD,       /* queued: the job before it in its sequence is under way */
    JOB_FOLLOWING,  /* queued: an identical job in flight answers for it */
    JOB_DISPATCHED, /* a worker has it */
    JOB_STEPS,      /* of an ensemble: its steps run as jobs of their own */
    JOB_HANDED,     /* queued: it was offered to another broker, whose word is awaited */
    JOB_DONE,       /* answered; the reply is kept until acknowledged */
};
const char *job_state_name(enum job_state state);

struct job {
    struct job_id id;
    struct table_node by_id;
    TAILQ_ENTRY(job) in_session; /* live jobs, or kept replies by sequence */
    TAILQ_ENTRY(job) in_group;   /* followers of a single flight, jobs that wait for Redis, or kept replies by age */
    struct session *session;
    struct lane *lane;            /* of its model; NULL when done */
    struct single_flight *flight; /* as its leader or a follower */
    struct dispatch *dispatch;
    union {
        struct shared_message *request; /* live: frame 0 is what a worker gets, but for the remaining deadline */
        struct shared_message *reply;   /* done */
    };
    struct turn *turn; /* in its lane; NULL = in no lane, or in the lane's `front` */
    uint64_t admitted_us;
    union {
        uint64_t done_us;              /* done */
        uint64_t lookup;               /* waits for Redis: number of the question */
        struct ensemble_run *ensemble; /* steps */
        struct dispatch *hedge;        /* dispatched: its second run, when the first is late; NULL = none */
    };
    uint64_t deadline_us; /* absolute; DEADLINE_NONE */
    uint64_t arrival;     /* order of admission */
    uint32_t lane_place, deadline_place;
    uint32_t rows;            /* of the batch dimension; 1 when there is none */
    uint32_t client_us;       /* from the client's submit to admission, measured with two clocks; 0 = unknown */
    uint8_t state : 4;        /* enum job_state */
    uint8_t owner : 4;        /* enum job_owner_kind: who is told its end */
    uint8_t priority;         /* 1 = most urgent */
    uint8_t slot, hedge_slot; /* its places in the dispatch and its hedge: below FRAME_MAX_GROUPS */
    uint8_t attempts;         /* dispatches that began */
    uint8_t deaths : 7;       /* how many workers were lost while they had it: at most --max-attempts */
    bool debug : 1;           /* runs in debug mode: many times slower than the model's others */
    bool offered : 1;         /* to another broker, and came back: not again */
    uint8_t doubts : 7;       /* in its last chances: deaths of workers that other brokers used, too; not in `deaths` */
    bool front : 1;           /* requeued after a worker was lost: goes before all others */
    bool alone : 1;           /* suspect: must be the only job of its batch */
    bool isolated : 1;        /* in its present run the worker has nothing else */
    bool any_version : 1;     /* another version may run it when this one goes away */
    bool explain : 1;         /* the reply is to say why */
    bool outputs : 1;         /* its request names the outputs that it wants */
    bool unsent : 1;          /* done, but not sent because its client had too much unread */
    bool noted : 1;           /* it has a note: jobs_note */
};
_Static_assert(sizeof(struct job) <= 168, "a waiting job costs 16 bytes more where a record is larger");
TAILQ_HEAD(job_list, job);

/* Which of one client's jobs leaves a lane first: by priority, deadline, arrival. A heap_before. */
bool job_before(const void *a, const void *b);
bool job_deadline_before(const void *a, const void *b);

struct jobs {
    struct table by_id;
    struct table notes; /* a table, because few jobs have a note and a pointer would cost each waiting job 16 bytes */
    struct job *spare;  /* linked by in_group.tqe_next: freed records kept for the next job */
    uint32_t spares;
};

enum pen_status jobs_init(struct jobs *jobs);
void jobs_fini(struct jobs *jobs);   /* every job must have been freed before */
void jobs_settle(struct jobs *jobs); /* gives back memory after a burst */
struct job *jobs_find(const struct jobs *jobs, struct job_id id);
/* A zeroed record in the table; NULL without memory. */
struct job *jobs_new(struct jobs *jobs, struct job_id id);
/* The job's note, made when it has none; NULL without memory. */
struct trace_note *jobs_note(struct jobs *jobs, struct job *job);
const struct trace_note *jobs_noted(const struct jobs *jobs, const struct job *job); /* NULL = none */
/* Takes the job out of the table and releases its messages; it must have left all lists. */
void jobs_free(struct jobs *jobs, struct job *job);

#endif
