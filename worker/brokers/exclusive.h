/*
 * exclusive.h - dispatches that must run alone: suspects.
 *
 * A broker wants to know whether they are what ends workers. When such a dispatch comes, all later dispatches wait,
 * from any broker, until the slots have finished what they have. Then the worker tells the suspect's broker that it
 * will run alone (Heartbeat.alone), and the other brokers that none of their jobs has begun (Heartbeat.paused); a PING
 * follows each heartbeat. The dispatch starts when all brokers have answered. If it ends this process, its broker knows
 * for sure that no other job did, and the others know that none of theirs did. In the same way all brokers learn that
 * it is over before the next dispatch starts.
 *
 * Threads: owner - the network thread.
 */
#ifndef EXCLUSIVE_H
#define EXCLUSIVE_H

#include "brokers.h"
#include "decoders.h"
#include "handoff.h"

enum exclusive_stage {
    EXCLUSIVE_NONE,
    EXCLUSIVE_DRAINING, /* the slots finish what they have */
    EXCLUSIVE_TELLING,  /* not all brokers have read yet that it is about to run */
    EXCLUSIVE_RUNNING,
    EXCLUSIVE_OVER /* as TELLING: not all brokers have read yet that it is over and others are about to run */
};

struct exclusive {
    enum exclusive_stage stage;
    bool news; /* heartbeats must tell of a change */
    struct dispatch *one;
    struct dispatch *first, *last; /* the dispatches that wait, linked by queue_next */
    size_t in_slots;               /* dispatches handed to the slots and not finished */
    struct decoders *decoders;     /* on the way to the slots; NULL: none */
    uint64_t told_us;
    struct exclusive_asked {
        uint64_t hellos, ping; /* the PONG that is awaited: to that PING of that connection; ping 0: none */
    } asked[ENDPOINTS_MAX];
    Penstock__RunningJob job;
};

/* A complete dispatch: gives it to a slot at once, or when the dispatches before it that must be alone are done. */
void exclusive_push(struct exclusive *exclusive, struct handoff *handoff, struct dispatch *dispatch);
/* A slot has finished with it. */
void exclusive_finished(struct exclusive *exclusive, const struct dispatch *dispatch);

/* Goes on as far as possible. True, and only then: send a heartbeat on every serving link now, then call
   exclusive_told. */
bool exclusive_step(struct exclusive *exclusive, struct handoff *handoff, const struct brokers *brokers,
                    uint64_t now_us);
void exclusive_told(struct exclusive *exclusive, struct brokers *brokers, uint64_t now_us);
/* Fills in what that link's heartbeats say about it. The heartbeat borrows from `alone`. */
void exclusive_fill(struct exclusive *exclusive, const struct link *link, Penstock__Heartbeat *beat);

#endif
