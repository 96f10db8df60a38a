/*
 * torture.h - `penstock torture`: load and faults at the same time, and a ledger that says whether a job was lost or answered twice.
 *
 * torture_pool starts and ends the programs, torture_relay stands between them so that a connection can be cut without anybody being told,
 * torture_plan draws what happens when, torture_ledger keeps the load going and notes every answer.
 * Threads: the main thread owns everything but the relay, which has a thread of its own.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "penstock/client.h"
#include "torture_relay.h"

#define TORTURE_WORKERS    4u
#define TORTURE_PATH_BYTES 512u
#define ENDPOINT_BYTES     96u
#define MODEL_NAME         "twice"
#define MODEL_ELEMENTS     16u
#define LARGE_NAME         "wide"
#define LARGE_ELEMENTS     524288u /* 2 MiB: twice what travels as one message */

enum fault {
    FAULT_WORKER_KILL,
    FAULT_WORKER_STOP,
    FAULT_WORKER_DRAIN,
    FAULT_BROKER_KILL,
    FAULT_BROKER_DRAIN,
    FAULT_CUT_WORKER,
    FAULT_CUT_CLIENT,
    FAULT_REDIS_STOP,
    FAULT_REDIS_KILL,
    FAULT_COUNT
};
const char *fault_name(enum fault fault); /* "worker_kill" */

/* ---- torture_pool.c ---- */

struct torture_pool {
    const char *bin; /* folder of the programs; "" = beside this one */
    bool with_redis;
    char folder[TORTURE_PATH_BYTES]; /* models, logs */
    pid_t broker, workers[TORTURE_WORKERS], redis;
    bool stopped[TORTURE_WORKERS], redis_stopped;
    int clients_port, workers_port, redis_port;
    struct relay *relay;
    int worker_lanes[TORTURE_WORKERS], client_lane;
    unsigned started;             /* programs, for the names of their logs */
    char clients[ENDPOINT_BYTES]; /* through the relay */
};

/* Starts everything and waits until broker and Redis listen. False: *reterr says why; torture_pool_stop is due all the same. */
bool torture_pool_start(struct torture_pool *pool, struct pen_error *reterr);
/* Waits until workers offer the models of the jobs: a minute, three seconds in a pool that is not `own`. False: *reterr says what to do. */
bool torture_pool_serves(pen_client *client, bool own, struct pen_error *reterr);
void torture_pool_stop(struct torture_pool *pool, bool keep_logs);
/* What has ended is started again. */
void torture_pool_mend(struct torture_pool *pool);
bool torture_pool_broker_restart(struct torture_pool *pool, int signal); /* false: none runs */

/* ---- torture_model.c ---- */

bool model_write(const char *folder);

/* ---- torture_ledger.c ---- */

struct wound { /* a fault, and the jobs that were under way when it struck */
    enum fault fault;
    uint64_t at_us, below, left;
    bool alone; /* no other fault was open meanwhile: its time is its own */
};

#define WOUNDS_MAX 64u

struct torture_ledger {
    pen_client *client;
    struct torture_entry *open;  /* jobs that were not answered yet; doubly linked */
    uint8_t *answers;            /* how often job i was answered, up to 255 */
    uint64_t large_every, large; /* one job of so many is large; those accepted */
    float *values;               /* [LARGE_ELEMENTS], of the job that is being made */
    uint64_t accepted, capacity, under_way, window, answered, twice, wrong, duplicates;
    uint64_t errors[PEN_STATUS_COUNT];
    char last_error[256];
    struct wound wounds[WOUNDS_MAX];
    unsigned wounds_count;
    uint64_t *recoveries_us[FAULT_COUNT];
    size_t recoveries[FAULT_COUNT];
    bool closed; /* no new jobs */
};

/* large_every: one job of so many has a payload of 2 MiB; 0 = none. */
bool ledger_open(struct torture_ledger *ledger, const char *endpoint, uint64_t window, uint64_t large_every,
                 struct pen_error *reterr);
void ledger_close(struct torture_ledger *ledger);
/* Keeps the window full and handles answers for that long. */
void ledger_run(struct torture_ledger *ledger, uint64_t until_us);
/* No new jobs; waits for the answers. */
void ledger_settle(struct torture_ledger *ledger, uint64_t until_us);
void ledger_fault(struct torture_ledger *ledger, enum fault fault);
uint64_t ledger_lost(const struct torture_ledger *ledger);
/* The time within which a share q of the faults of this kind had all their jobs answered, in ms; 0 when none. */
double ledger_recovery_ms(struct torture_ledger *ledger, enum fault fault, double q);

/* ---- torture_plan.c ---- */

#define TORTURE_ORDER_MAX 4096 /* faults whose order is reported */

/* The kinds come from one generator, the details of each fault from one of its own: what the pool happens to look like when a fault strikes moves
 * neither the kinds that follow nor their details. */
struct torture_plan {
    uint64_t seed, kinds, details; /* the generators' states */
    uint64_t struck;
    enum fault next;
    bool drawn;                       /* next is put off */
    uint8_t order[TORTURE_ORDER_MAX]; /* the kinds of the first faults, in order */
    enum fault deck[64];
    unsigned deck_left;
    uint64_t counts[FAULT_COUNT];
    uint64_t resume_us[TORTURE_WORKERS], redis_resume_us; /* SIGCONT is due; 0 = none */
};

void plan_init(struct torture_plan *plan, uint64_t seed);
/* Lets the next fault happen; a pool that was given has no programs to hurt, so its clients' connection is cut. False: whom it is meant for is not there at
 * the moment (all workers are stopped or on their way up); nothing was done or counted, and the same fault comes at the next call. */
bool plan_strike(struct torture_plan *plan, struct torture_pool *pool, bool own_pool, enum fault *ret_fault);
enum heal {
    HEAL_DUE, /* what was stopped for long enough */
    HEAL_ALL,
};
/* Continues what was stopped. */
void plan_heal(struct torture_plan *plan, struct torture_pool *pool, enum heal heal);

#endif
