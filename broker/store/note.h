/*
 * note.h - messages between the broker's thread and the thread of the detached jobs in Redis: one malloc'd note each,
 * owned by its receiver. A note with a question comes back with its answer.
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
#define NOTE_TEXT_BYTES  192u

enum note_kind {
    /* From the owner to the thread. The kinds up to CANCEL come back with an answer. */
    NOTE_ACCEPT, /* id, owner, model, message (the request), ttl_us, quota_bytes */
    NOTE_DONE,   /* id, message (the reply) */
    NOTE_BACK,   /* id: the job is given back, so another broker may take it */
    NOTE_FETCH,  /* id, asker, owner.tenant; OK: message (the reply); PENDING: state; both: attempts, age_us, ttl_us */
    NOTE_CANCEL, /* id, asker, serial, owner, admin, message (the reply that it gets) */
    NOTE_RENEW,  /* list: the ids that are held */
    NOTE_WANT,   /* room; list: names of the models that can be run, NULL = as before */
    NOTE_STOP,   /* the thread ends when everything before it is done */
    /* From the thread to the owner, not asked for. */
    NOTE_TAKEN, /* id, owner, message (the request), attempts, ttl_us (left) */
    NOTE_LOST,  /* id: the job is not this broker's any more */
    NOTE_BELL,  /* id: the job has ended somewhere */
    NOTE_STATE, /* up, text */
};

enum note_answer {
    ANSWER_DOWN,    /* Redis is gone and has not got the question */
    ANSWER_UNKNOWN, /* Redis got the question and went before it answered */
    ANSWER_OK,
    ANSWER_KNOWN,   /* ACCEPT: Redis has the job already; DONE: another broker's result came first */
    ANSWER_NONE,    /* no such job */
    ANSWER_PENDING, /* FETCH: the job is not done yet */
    ANSWER_ENDED,   /* CANCEL: too late */
    ANSWER_DENIED,  /* the job is somebody else's */
    ANSWER_FULL,    /* text: which limit is reached */
    ANSWER_LARGE,   /* ACCEPT: the job alone is beyond a limit; text: which */
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
    bool broken; /* FETCH, with ERROR: the kept result is not one of that job, and never will be */
    char state[16];
    char text[NOTE_TEXT_BYTES];
};
TAILQ_HEAD(note_list, note);

struct note *note_new(enum note_kind kind, struct job_id id); /* NULL without memory */
void note_free(struct note *note);                            /* with its message and list; NULL is fine */

#endif
