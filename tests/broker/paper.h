/*
 * paper.h - a journal's file that forgets what was not synced when the power is cut, and that can be full.
 * Threads: owner.
 */
#ifndef TEST_PAPER_H
#define TEST_PAPER_H

#include "journal.h"

struct paper {
    struct journal_file file; /* first */
    uint8_t bytes[1 << 20];
    size_t written, synced, room;
    struct paper *fresh; /* the one that is to take its place; NULL = none */
    unsigned replaced;
    bool sync_fails;
};

struct paper *paper_new(void); /* free(3) it */

#endif
