/*
 * serve.h - the network thread's loop: messages in, results out, heartbeats, cancellations, drain. It never runs a kernel.
 *
 * Threads: owner - the network thread.
 */
#ifndef SERVE_H
#define SERVE_H

#include "exclusive.h"
#include "brokers.h"
#include "logline.h"
#include "spin.h"
#include "update.h"
#include "vitals.h"
#include "watchdog.h"

struct serve {
    struct brokers *brokers;
    struct inbox *inbox;
    struct outbox *outbox;
    struct handoff *handoff;
    struct stats *stats;
    struct slot *const *slots;
    size_t slots_count;
    const struct options *options;
    const struct identity *identity;
    struct vitals *vitals;
    struct spin spins[2]; /* while no slot has work, while one has */
    struct orders *orders;
    struct states *states;
    struct update update;
    struct exclusive exclusive;
    struct watchdog watchdog;

    bool draining;                    /* asked to, by a signal or by the broker */
    bool drained;                     /* goodbye is said */
    uint64_t drain_us;                /* when it began */
    uint64_t blocks_us;               /* when memory of large frames was looked at */
    uint64_t alive_us, alive_step_us; /* when the service manager is told next that this loop turns, and how often */
};

/* Until drained, refused or wedged. Returns the program's exit code. */
int serve_run(struct serve *serve);

/* One turn of that: sends the results there are, handles the messages there are. True when there was anything. */
bool serve_turn(struct serve *serve, uint64_t now_us);

/* How much is logged from now on; `by`, for the log: who asked. */
void serve_log_level(enum log_level level, const char *by);

#endif
