/*
 * detached_shared_internal.h - what the two files of detached_shared.h share.
 *
 * detached_shared.c owns the jobs: it hands them to Redis, takes them, renews them, gives them back and ends them.
 * detached_shared_ask.c owns the questions: what clients wait for, what they cancel, and what they are told.
 * Threads: owner.
 */
#ifndef DETACHED_SHARED_INTERNAL_H
#define DETACHED_SHARED_INTERNAL_H

#include "detached_shared.h"
#include "streams.h"

struct shared {
    struct streams *streams;
    bool up;
    char text[NOTE_TEXT_BYTES]; /* why it failed, or how durable it is */
    uint32_t held, room_told;
    bool models_changed;
    uint64_t accepting_bytes;
    uint64_t look_us, renew_us, lease_us;
};

/* Tells the client, if it is still connected, that its job was not accepted or that its question has no answer. */
void shared_refuse(struct broker *broker, struct job_id id, enum pen_status status, const char *text);

void shared_ask_all(struct broker *broker);   /* Redis is back: asks all waiting questions again */
void shared_ask_again(struct broker *broker); /* for those that waited long: a message of the bell may have been lost */
void shared_ask_watchers(struct broker *broker, struct job_id id); /* the bell of that job rang */

/* Handles the answer of Redis to a fetch or a cancel. */
void shared_answer_fetch(struct broker *broker, struct note *note);
void shared_answer_cancel(struct broker *broker, const struct note *note);

#endif
