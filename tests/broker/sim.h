/*
 * sim.h - workers on the desk that take their time: each runs its messages one after the other and answers when the clock says so.
 *
 * With it whole loads run in simulated time: fairness, unlike workers, queues. Threads: owner.
 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include "desk.h"

#define SIM_WORKERS_MAX  8
#define SIM_MESSAGES_MAX 64
#define SIM_MODELS_MAX   8

struct sim_message {
    size_t count;
    struct job_id jobs[64];
    size_t model; /* index into the models */
};

struct sim_worker {
    uint32_t peer;
    uint64_t factor; /* times as slow as the models say */
    struct sim_message queue[SIM_MESSAGES_MAX];
    size_t first, count; /* [first] runs */
    uint64_t end_us;     /* when it is done */
    uint64_t busy_us;
};

struct sim {
    struct desk *desk;
    struct wire_model models[SIM_MODELS_MAX];
    size_t models_count;
    struct sim_worker workers[SIM_WORKERS_MAX];
    size_t workers_count;
    uint64_t step_us;
    uint64_t (*stretch)(struct job_id id); /* how many times as long as its model says a job takes; NULL = once */
    void (*answered)(struct sim *sim, struct job_id id, void *arg); /* a result reached its client */
    void *arg;
};

/* A desk with models of these execution times (us, batch of one; a batch takes as long as its jobs together) and no workers. */
void sim_init(struct sim *sim, const uint64_t *exec_us, size_t models);
void sim_worker(struct sim *sim, uint64_t factor);
uint64_t sim_now_us(const struct sim *sim);
void sim_hello(struct sim *sim, uint32_t peer, uint64_t uuid, const char *tenant);
void sim_submit(struct sim *sim, uint32_t peer, struct job_id id, size_t model);
/* Turns the clock by one step: workers take, finish, answer. */
void sim_step(struct sim *sim);
void sim_fini(struct sim *sim);

#endif
