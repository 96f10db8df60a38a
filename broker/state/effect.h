/*
 * effect.h - what follows from an event and is not done inside it: a queue that the handlers drain when they are through (broker_init names who hears of each).
 *
 * An effect is a link in the record that it is about (a session, a worker, an ensemble's run, a sequence, a payload), so posting one takes no memory and cannot
 * fail. A record that goes takes its effect out first. Effects run in the order in which they were posted; one that is posted twice before it runs, runs once.
 * Threads: owner.
 */
#ifndef EFFECT_H
#define EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum effect_kind {
    EFFECT_CLIENT_GONE,    /* struct session, gone: its connection is lost, its payloads on the way end */
    EFFECT_WORKER_ENDED,   /* struct worker, ended: a message to it could not be sent */
    EFFECT_PAYLOAD_HERE,   /* struct transfer_in, here: its last byte has come, or it was given up */
    EFFECT_ENSEMBLE_MOVES, /* struct ensemble_run, moves: it begins, a step of it has ended, or it is over */
    EFFECT_SEQUENCE_MOVES, /* struct sequence, moves: a job of it has ended */
    EFFECT_COUNT
};

struct effect {
    struct effect *next, *before; /* NULL: it is not posted */
    uint8_t kind;                 /* enum effect_kind */
};

struct broker;

/* Who hears of each kind: handlers of the rooms above, set when the broker begins. */
typedef void (*effect_subscriber)(struct broker *broker, struct effect *effect);

struct effects {
    struct effect ends; /* a ring: its next is the oldest */
    bool draining;
    uint64_t drained;                     /* so far */
    const effect_subscriber *subscribers; /* [EFFECT_COUNT], borrowed */
};

void effects_init(struct effects *effects, const effect_subscriber *subscribers);
bool effects_empty(const struct effects *effects);
void effect_post(struct effects *effects, struct effect *effect, enum effect_kind kind);
/* Its record goes, or there is nothing left to do. Nothing when it is not posted. */
void effect_drop(struct effect *effect);
bool effect_posted(const struct effect *effect);
struct effect *effects_take(struct effects *effects); /* the oldest, out of the queue; NULL: none */

/* Runs what was posted, and what that posts, until the queue is empty: every handler of a message and the timers end with it. True: there was something. */
bool effects_drain(struct broker *broker);

/* The record that an effect is about. */
#define effect_of(effect, type, member) ((type *)(void *)((char *)(effect)-offsetof(type, member)))

#endif
