/*
 * story.h - a story that is being told: what peers say to a broker on a desk (story_said.c), and what follows, as text (story_told.c). The lines are in
 * test_stories.c. Threads: owner. What is no such line ends the program with a sentence.
 */
#ifndef TEST_STORY_H
#define TEST_STORY_H

#include <stdio.h>

#include "desk.h"
#include "journal.h"
#include "paper.h"
#include "story_text.h"

#define STORY_LETS_MAX 32u

struct story {
    struct desk *desk; /* NULL before the first message */
    struct paper *paper;
    struct journal *journal;
    struct settings_store *settings; /* texts that the broker's options point to; NULL = defaults */
    FILE *out;
    char *lets[STORY_LETS_MAX][2];
    size_t lets_count;
    bool long_wait; /* signs of life are counted, not written */
    unsigned signs;
    size_t told[2];       /* messages of the sides that are written */
    uint64_t own;         /* whose number the broker's own jobs have */
    uint32_t alive[2][8]; /* peers of workers, of clients, that show it while time passes */
    char *metrics;        /* of the last time */
};

extern uint64_t story_wall_us; /* of the calendar: it goes with the desk's clock */

/* The message that a frame of this type carries; NULL = none. Names of the 16 flags of an envelope; NULL = none. */
const ProtobufCMessageDescriptor *story_meta(uint8_t type);
extern const char *const story_flags[16];
_Noreturn void story_bad(const char *what, const char *line);

/* "50ms", "3us", "2s": microseconds. */
uint64_t story_read_time(const char *text);
/* PEER TYPE WORDS { META } raw=SIZE + ...: the rest of a line. */
void story_say(struct story *story, bool worker, const char *text);
/* Those that are alive say so now and then. */
void story_set_alive(struct story *story, bool worker, uint32_t peer, bool alive);
void story_pass_time(struct story *story, uint64_t us);
void story_lose(struct story *story, const char *text); /* SIDE PEER */

/* What both sides got since the last time; what /metrics says otherwise than the last time; what the dashboard reads. */
void story_write_news(struct story *story);
void story_tell_metrics(struct story *story);
void story_tell_json(const struct story *story);

#endif
