/*
 * queue.h - jobs waiting for a worker, one queue per model and version, in lanes of jobs that may share a batch.
 *
 * A lane holds the jobs of one demand (backend, precision, tags) and one shape bucket. Lanes with waiting jobs are in
 * the broker's list of active lanes. A lane lives as long as a job refers to it. Clients of one priority share it
 * fairly; the jobs of one client are ordered by deadline.
 * Threads: owner.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdint.h>
#include <sys/queue.h>

#include "effect.h"
#include "heap.h"
#include "job.h"
#include "match.h"
#include "policy.h"
#include "fair_queue.h"
#include "table.h"

#define LANE_LOOK  64u  /* the largest number of jobs in a batch */
#define LANE_BATCH 256u /* jobs that one run of EFFECT_LANE_LOOK moves, begins or ends */

/* The place where a job would wait. */
struct admission_place {
    const struct demand *demand;
    uint64_t shape, deadline_us;
    uint8_t priority;
};

struct lane {
    struct table_node by_demand;
    TAILQ_ENTRY(lane) in_active;
    struct effect look; /* EFFECT_LANE_LOOK */
    struct queue *queue;
    struct model *model;
    struct demand demand; /* tags belong to the lane */
    uint64_t shape;       /* hash of the input dims without the batch dimension */
    struct heap front;    /* jobs that came back from a lost worker: go before all others */
    struct heap turns;    /* one per client that waits (fair_queue.h) */
    struct turn *spare_turn;
    size_t count;
    uint64_t rows;
    uint64_t unserved_us;  /* since when no worker could run its jobs; 0 = one can */
    uint64_t wake_us;      /* when time closes its batch; UINT64_MAX = none */
    uint32_t users;        /* live jobs that refer to it */
    uint32_t solo_batches; /* batches in a row that waited for more jobs and got only one */
    uint32_t pass;         /* last scheduling pass in which no job of it could start */
};
TAILQ_HEAD(lane_list, lane);

struct queue {
    struct table lanes;
    struct lane_list *active;      /* borrowed: the broker's */
    struct fair_queue *fair_queue; /* borrowed, too */
    struct lane *idle;             /* the last lane without users, kept for the next job */
    uint64_t limit_jobs;           /* the broker's own */
    struct policies policies;
    uint64_t waiting;       /* jobs in lookup, queued, held and following */
    uint32_t at_level[256]; /* the same by priority */
    uint64_t bytes;         /* of their requests */
};

/* limit_jobs: how many jobs may wait, whatever the model's own policies allow. NO_MEMORY */
enum pen_status queue_init(struct queue *queue, struct lane_list *active, struct fair_queue *fair_queue,
                           uint64_t limit_jobs);
void queue_fini(struct queue *queue); /* call it when no job refers to it any more */

/* Finds or makes the lane and counts the caller as a user; copies the demand. NULL without memory. */
struct lane *queue_lane(struct queue *queue, struct model *model, const struct demand *demand, uint64_t shape);
void lane_release(struct lane *lane); /* one user less; a lane without users may be freed */

/*
 * Rows that should leave the lane before a new job of this client and priority: those of its client and, because
 * clients take turns, as many of each other client.
 */
uint64_t queue_ahead(const struct queue *queue, const struct session *session, const struct admission_place *place);

/* PEN_ERR_BUSY when the model, or the job's policy, has its limit of waiting jobs already; the text names the model. */
enum pen_status queue_enter(struct queue *queue, const char *model, uint8_t priority, size_t bytes,
                            struct pen_error *reterr);
void queue_add(struct queue *queue, uint8_t priority, size_t bytes);   /* even beyond the limit */
void queue_leave(struct queue *queue, uint8_t priority, size_t bytes); /* a job that was counted waits no more */

enum pen_status lane_push(struct lane *lane, struct job *job); /* NO_MEMORY: the job was not added */
struct job *lane_head(const struct lane *lane);                /* the job whose turn it is; NULL if empty */
/*
 * A job that would leave the lane behind `rank` or more others when clients take turns, and whose client may pass the
 * others by a job of that cost (fair_share_near). NULL: there is none among the first HEAP_FIRST_MAX clients, or jobs
 * from lost workers go first.
 */
struct job *lane_ranked(const struct lane *lane, uint64_t rank, uint64_t cost_us);
/*
 * Looks at the head and at the next jobs of the other clients (at most LANE_LOOK): the earliest deadline, UINT64_MAX =
 * none has one, and the arrival of the job that has waited longest. Fairness and priority decide which job goes first,
 * so that job need not have the earliest deadline.
 */
void lane_urgency(const struct lane *lane, uint64_t *ret_deadline_us, uint64_t *ret_oldest_us);
void lane_remove(struct lane *lane, struct job *job); /* does nothing when it is not in the lane */
/* A job of this lane starts and is expected to take this long: its client's next jobs move back. Without memory
   nobody is charged. */
void lane_charge(struct lane *lane, const struct job *job, uint64_t cost_us, struct cost *ret_cost);
/* Up to `room` jobs of the lane that are wanted, in no order. */
size_t lane_collect(const struct lane *lane, bool (*wanted)(const struct job *job), struct job **ret_jobs, size_t room);
/* True when the head of `a` goes first; neither lane is empty. */
bool lane_before(const struct lane *a, const struct lane *b);

#endif
