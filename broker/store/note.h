/*
 * note.h - what the broker's thread and the thread of the detached jobs in Redis hand each other: one malloc'd note per message, owned by who has
 * it. A note that asks comes back with its answer.
 * Threads: any.
 */
#ifndef NOTE_H
#define NOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "job_id.h"
#include "owner.h"
#include "shared_message.h"

#define NOTE_MODEL_BYTES 256u
#define NOTE_TEXT_BYTES  160u

enum note_kind {
    /* From the owner. Those up to CANCEL come back. */
    NOTE_ACCEPT, /* id, owner, model, message (the request), ttl_us, quota_bytes */
    NOTE_DONE,   /* id, message (the reply) */
    NOTE_BACK,   /* id: another broker may take it */
    NOTE_FETCH,  /* id, asker, owner.tenant; OK: message (the reply); PENDING: state, attempts, age_us, ttl_us */
    NOTE_CANCEL, /* id, asker, serial, owner, admin, message (the reply that it gets) */
    NOTE_RENEW,  /* list: the ids that are held */
    NOTE_WANT,   /* room; list: names of the models that can be run, NULL = as before */
    NOTE_STOP,   /* when everything before it is done */
    /* From the thread, unasked. */
    NOTE_TAKEN, /* id, owner, message (the request), attempts, ttl_us (left) */
    NOTE_LOST,  /* id: it is not ours any more */
    NOTE_BELL,  /* id: it has ended somewhere */
    NOTE_STATE, /* up, text */
};

enum note_answer {
    ANSWER_DOWN,    /* Redis is gone and was told nothing */
    ANSWER_UNKNOWN, /* it was told, and went before it answered */
    ANSWER_OK,
    ANSWER_KNOWN,   /* ACCEPT: is there already; DONE: somebody else's result came first */
    ANSWER_NONE,    /* no such job */
    ANSWER_PENDING, /* FETCH: not done yet */
    ANSWER_ENDED,   /* CANCEL: too late */
    ANSWER_DENIED,  /* it is somebody else's */
    ANSWER_FULL,    /* text: which cap */
    ANSWER_LARGE,   /* ACCEPT: beyond a cap by itself; text: which */
    ANSWER_ERROR,   /* text: what Redis says */
};

struct note {
    TAILQ_ENTRY(note) in_box;
    enum note_kind kind;
    enum note_answer answer;
    struct job_id id, asker;
    uint64_t serial;
    struct owner owner;
    char model[NOTE_MODEL_BYTES];
    struct shared_message *shared;
    uint64_t ttl_us, age_us, quota_bytes;
    uint32_t attempts, room;
    char *list; /* malloc'd, each item followed by '\n' */
    bool admin, up;
    bool broken; /* FETCH, with ERROR: what is kept as the result is none of that job, and will be none */
    char state[16];
    char text[NOTE_TEXT_BYTES];
};
TAILQ_HEAD(note_list, note);

struct note *note_new(enum note_kind kind, struct job_id id); /* NULL without memory */
void note_free(struct note *note);                            /* with its message and list; NULL is fine */

#endif
