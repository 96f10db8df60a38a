/*
 * detached_shared_internal.h - what the two files of detached_shared.h share.
 *
 * detached_shared.c owns the jobs: what is handed to Redis, taken from it, renewed, given back, done. detached_shared_ask.c owns the questions: what
 * clients wait for, what they cancel, and what is told to them.
 * Threads: owner.
 */
#ifndef DETACHED_SHARED_INTERNAL_H
#define DETACHED_SHARED_INTERNAL_H

#include "detached_shared.h"
#include "streams.h"

struct shared {
    struct streams *streams;
    bool up;
    char text[NOTE_TEXT_BYTES]; /* why not, or how durable it is */
    uint32_t held, room_told;
    bool models_changed;
    uint64_t accepting_bytes;
    uint64_t look_us, renew_us, lease_us;
};

/* The client, if it is still there, is told that its job was not accepted or its question has no answer. */
void shared_refuse(struct broker *broker, struct job_id id, enum pen_status status, const char *text);

void shared_ask_all(struct broker *broker);   /* Redis is back: everybody's question is put again */
void shared_ask_again(struct broker *broker); /* those who have waited long: a bell may be lost with a connection */
void shared_ask_watchers(struct broker *broker, struct job_id id); /* the bell of that job rang */

/* What Redis has answered to a fetch or a cancel. */
void shared_answer_fetch(struct broker *broker, struct note *note);
void shared_answer_cancel(struct broker *broker, const struct note *note);

#endif
