/*
 * effect.h - what follows from an event and is not done inside it: a queue that each handler drains when it is through. broker.c names who hears of each kind.
 *
 * An effect is a link in the record that it is about, so posting one takes no memory and cannot fail. A record that goes takes its effects out first. Effects
 * run in the order in which they were posted; one that is posted twice before it runs, runs once. Those who hear of a kind do so in the order of its row.
 *
 * An event is: effects_begin, the handler, effects_drain. No handler runs inside another one or inside an effect, and nothing is posted outside of them.
 * A drain ends: what a subscriber posts is about records of which there are finitely many, each with less left to do. A subscriber with much to do does a
 * part of it and posts itself again (effect_post_again); of these a turn of the loop runs EFFECTS_AGAIN, the others wait for the next turn, so that a flood
 * of jobs does not keep the loop from its sockets.
 * Threads: owner.
 */
#ifndef EFFECT_H
#define EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EFFECTS_AGAIN          16u /* in one turn: effects that were posted again by their own subscribers */
#define EFFECT_SUBSCRIBERS_MAX 6u  /* of one kind */

enum effect_kind {
    EFFECT_CLIENT_GONE,      /* struct session, gone: its connection is lost */
    EFFECT_ROOM_FOR_REPLIES, /* struct session, room: it has read what was sent, so replies that were kept back may go */
    EFFECT_WORKER_JOINED,    /* struct worker, joined: its hello was taken */
    EFFECT_WORKER_UPDATED,   /* struct worker, updated: it offers other models than before */
    EFFECT_WORKER_DRAINS,    /* struct worker, drains: it gets no more work and is here still */
    EFFECT_WORKER_ENDED,   /* struct worker, ended: a message to it could not be sent; what it has said is read still */
    EFFECT_WORKER_LEFT,    /* struct worker, left: it is gone, and its record goes */
    EFFECT_LANE_LOOK,      /* struct lane, look: can its jobs run, and where? */
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

/*
 * Who hears of a kind: functions of the rooms above, set when the broker begins. True: the next one of the row hears of it, too. False: nobody else does, for
 * the record may have gone, or this one has begun what there was to do.
 */
typedef bool (*effect_subscriber)(struct broker *broker, struct effect *effect);
typedef effect_subscriber effect_row[EFFECT_SUBSCRIBERS_MAX]; /* in their order; behind the last one NULL, or the end */

enum effects_phase { EFFECTS_IDLE, EFFECTS_HANDLING, EFFECTS_DRAINING };

struct effects {
    struct effect ends;  /* a ring: its next is the oldest */
    struct effect later; /* a ring as well: for the next turn */
    enum effects_phase phase;
    uint32_t again,
        again_max; /* posted again in this turn, and how many may be: EFFECTS_AGAIN; simulations take less */
    uint64_t ran[EFFECT_COUNT]; /* so far */
    const effect_row *rows;     /* [EFFECT_COUNT], borrowed */
};

void effects_init(struct effects *effects, const effect_row *rows);
bool effects_empty(const struct effects *effects); /* nothing is to be done in this turn */
bool effects_left(const struct effects *effects);  /* something is to be done in the next one */

/* Once for each event, before its handler. */
void effects_begin(struct effects *effects);
/* A turn of the loop begins: what was left by the one before it may go on. */
void effects_turn(struct effects *effects);
/* The end of each handler. Runs what was posted, and what that posts, until nothing is left for this turn. True: there was something. */
bool effects_drain(struct broker *broker);

void effect_post(struct effects *effects, struct effect *effect, enum effect_kind kind);
/* By its own subscriber: more of the same is left to do. Behind all others, in this turn or the next. */
void effect_post_again(struct effects *effects, struct effect *effect);
/* Its record goes, or there is nothing left to do. Nothing when it is not posted. */
void effect_drop(struct effect *effect);
bool effect_posted(const struct effect *effect);

/* The record that an effect is about. */
#define effect_of(effect, type, member) ((type *)(void *)((char *)(effect)-offsetof(type, member)))

#endif
