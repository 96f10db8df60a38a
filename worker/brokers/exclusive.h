/*
 * exclusive.h - dispatches that must run alone: suspects, of which a broker wants to know whether they are what ends workers.
 *
 * From the moment that such a dispatch is there, those behind it wait, whichever broker they came from. When the slots have finished what they had, its
 * broker is told that it runs alone (Heartbeat.alone) and the others that nothing of theirs has begun (Heartbeat.paused), each with a PING behind it. The
 * dispatch starts when all have answered: if it ends this process, its broker knows for sure that nothing else did, and the others that none of
 * their jobs did. In the same way all know that it is over before the next one starts.
 *
 * Threads: owner - the network thread.
 */
#ifndef EXCLUSIVE_H
#define EXCLUSIVE_H

#include "brokers.h"
#include "handoff.h"

enum exclusive_stage {
    EXCLUSIVE_NONE,
    EXCLUSIVE_DRAINING, /* the slots finish what they have */
    EXCLUSIVE_TELLING,  /* the brokers have not all read yet that it is about to run */
    EXCLUSIVE_RUNNING,
    EXCLUSIVE_OVER /* as TELLING: it has run, and others are about to */
};

struct exclusive {
    enum exclusive_stage stage;
    bool news; /* heartbeats are to tell of a change */
    struct dispatch *one;
    struct dispatch *first, *last; /* those that wait, linked by queue_next */
    size_t in_slots;               /* dispatches handed to the slots and not finished */
    uint64_t told_us;
    struct exclusive_asked {
        uint64_t hellos, ping; /* the PONG to that PING of that connection is awaited; ping 0: it is not */
    } asked[ENDPOINTS_MAX];
    Penstock__RunningJob job;
};

/* A complete dispatch: to a slot at once, or when those before it that must be alone are done. */
void exclusive_push(struct exclusive *exclusive, struct handoff *handoff, struct dispatch *dispatch);
/* A slot has finished with it. */
void exclusive_finished(struct exclusive *exclusive, const struct dispatch *dispatch);

/* Goes on as far as can be. True, and only then: every link that serves is to get a heartbeat now, and exclusive_told behind them. */
bool exclusive_step(struct exclusive *exclusive, struct handoff *handoff, const struct brokers *brokers,
                    uint64_t now_us);
void exclusive_told(struct exclusive *exclusive, struct brokers *brokers, uint64_t now_us);
/* What that link's heartbeats say of it. The heartbeat borrows from `alone`. */
void exclusive_fill(struct exclusive *exclusive, const struct link *link, Penstock__Heartbeat *beat);

#endif
