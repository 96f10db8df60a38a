/*
 * play_streams.h - detached jobs in a Redis that is played: the functions of broker/store/streams.h over one store in memory, which all brokers of a
 * test share, on the test's clock. It answers at once, can go away with or without having heard the last word, and keeps what it has.
 * Threads: owner.
 */
#ifndef TEST_PLAY_STREAMS_H
#define TEST_PLAY_STREAMS_H

#include "streams.h"

enum play_mood {
    PLAY_UP,
    PLAY_DOWN, /* hears nothing */
    PLAY_DEAF, /* does what it is told, and its answers are lost */
};

void play_begin(uint64_t (*clock)(void)); /* an empty store */
void play_end(void);
void play_mood(enum play_mood mood); /* brokers are told */
size_t play_jobs(void);              /* in the store */
enum play_state { PLAY_NONE, PLAY_OPEN, PLAY_DONE } play_state(struct job_id id);
/* What is kept for it; NULL: nothing, or not yet. */
const struct shared_message *play_reply(struct job_id id);
uint64_t play_runs(void); /* times that a broker took a job */

#endif
