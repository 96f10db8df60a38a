/*
 * effect.h - what follows from an event, put into a queue instead of being done inside the handler. Each handler drains
 * the queue at its end. broker.c lists the subscribers of each kind.
 *
 * An effect is a link in the record that it is about, so posting one takes no memory and cannot fail. A record takes
 * its effects out of the queue before it is freed. Effects run in the order in which they were posted; an effect that
 * is posted twice before it runs, runs once. The subscribers of a kind are called in the order of its row.
 *
 * An event is: effects_begin, the handler, effects_drain. No handler runs inside another one or inside an effect, and
 * nothing is posted outside of them. Why a drain ends: subscribers post effects only about existing records, each with
 * less left to do than before. A subscriber with much to do does a part of it and posts its effect again
 * (effect_post_again). One turn of the loop runs EFFECTS_AGAIN of these; the rest wait for the next turn, so that a
 * flood of jobs does not keep the loop from its sockets.
 * Threads: owner.
 */
#ifndef EFFECT_H
#define EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EFFECTS_AGAIN          16u /* per turn: how many effects may run that their own subscribers posted again */
#define EFFECT_SUBSCRIBERS_MAX 6u  /* per kind */

enum effect_kind {
    EFFECT_CLIENT_GONE,      /* struct session, gone: its connection is lost */
    EFFECT_ROOM_FOR_REPLIES, /* struct session, room: the client has read what was sent, so kept-back replies may go */
    EFFECT_WORKER_JOINED,    /* struct worker, joined: its hello was taken */
    EFFECT_WORKER_UPDATED,   /* struct worker, updated: it offers other models than before */
    EFFECT_WORKER_DRAINS,    /* struct worker, drains: it gets no more work, but is still here */
    EFFECT_WORKER_ENDED, /* struct worker, ended: a message to it could not be sent; messages from it are still read */
    EFFECT_WORKER_LEFT,  /* struct worker, left: it is gone, and its record will be freed */
    EFFECT_LANE_LOOK,    /* struct lane, look: can its jobs run, and where? */
    EFFECT_PAYLOAD_HERE, /* struct transfer_in, here: its last byte has come, or it was given up */
    EFFECT_ENSEMBLE_MOVES, /* struct ensemble_run, moves: it begins, a step of it has ended, or it is over */
    EFFECT_SEQUENCE_MOVES, /* struct sequence, moves: a job of it has ended */
    EFFECT_SHADOW_MOVES,   /* struct shadow, moves: a job is to be copied, or a job of a pair has ended */
    EFFECT_COUNT
};

struct effect {
    struct effect *next, *before; /* NULL: it is not posted */
    uint8_t kind;                 /* enum effect_kind */
};

struct broker;

/*
 * A subscriber: a function of a room above, set when the broker begins. True: the next subscriber of the row is called,
 * too. False: no other one is called, because the record may be freed, or because this one has begun all that there was
 * to do.
 */
typedef bool (*effect_subscriber)(struct broker *broker, struct effect *effect);
typedef effect_subscriber effect_row[EFFECT_SUBSCRIBERS_MAX]; /* called in this order, up to a NULL or the end */

enum effects_phase { EFFECTS_IDLE, EFFECTS_HANDLING, EFFECTS_DRAINING };

struct effects {
    struct effect ends;  /* a ring: its next is the oldest */
    struct effect later; /* a ring as well: for the next turn */
    enum effects_phase phase;
    uint32_t again,
        again_max; /* how many were posted again in this turn, and the limit: EFFECTS_AGAIN, less in simulations */
    uint64_t ran[EFFECT_COUNT]; /* how many have run so far, by kind */
    const effect_row *rows;     /* [EFFECT_COUNT], borrowed */
};

void effects_init(struct effects *effects, const effect_row *rows);
bool effects_empty(const struct effects *effects); /* nothing is to be done in this turn */
bool effects_left(const struct effects *effects);  /* something is to be done in the next one */

/* Once for each event, before its handler. */
void effects_begin(struct effects *effects);
/* A turn of the loop begins: effects left by the last turn may run. */
void effects_turn(struct effects *effects);
/* Call it at the end of each handler. Runs the posted effects, and those that they post, until nothing is left for
   this turn. True: there was something. */
bool effects_drain(struct broker *broker);

void effect_post(struct effects *effects, struct effect *effect, enum effect_kind kind);
/* For a subscriber, about its own effect: more of the same work is left. The effect runs behind all others, in this
   turn or the next. */
void effect_post_again(struct effects *effects, struct effect *effect);
/* Takes the effect out of the queue, because its record is freed or nothing is left to do. Does nothing when it is
   not posted. */
void effect_drop(struct effect *effect);
bool effect_posted(const struct effect *effect);

/* The record that an effect is about. */
#define effect_of(effect, type, member) ((type *)(void *)((char *)(effect)-offsetof(type, member)))

#endif
