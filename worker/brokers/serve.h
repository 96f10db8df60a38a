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
    struct spin spins[2]; /* [0]: while no slot has work; [1]: while one has */
    struct orders *orders;
    struct states *states;
    struct update update;
    struct exclusive exclusive;
    struct watchdog watchdog;

    bool draining;                    /* a signal or the broker asked for it */
    bool drained;                     /* all brokers have been told goodbye */
    uint64_t drain_us;                /* when draining began */
    uint64_t blocks_us;               /* when the memory of large frames was last trimmed */
    uint64_t alive_us, alive_step_us; /* when to tell the service manager next that this loop turns, and how often */
};

/* Until drained, refused or wedged. Returns the program's exit code. */
int serve_run(struct serve *serve);

/* One turn of the loop: sends the results and handles the messages that are there. True when there were any. */
bool serve_turn(struct serve *serve, uint64_t now_us);

#endif
