/*
 * provenance.h - what an answer says of itself, as parameters of the answer: what its numbers rest on (backend, device, precision, library, instruction set,
 * engine build, age, measured error), and the log of debug mode.
 *
 * Threads: any (pure functions).
 */
#ifndef PROVENANCE_H
#define PROVENANCE_H

#include <stddef.h>

#include "inference.h"

#define PROVENANCE_MAX        13
#define PROVENANCE_TEXT_BYTES 32

/* A parameter of the answer: a text. */
struct provenance {
    const char *name, *value;
    char number[PROVENANCE_TEXT_BYTES]; /* what `value` points to when it is one */
};

/* Those that the request asked for, at most PROVENANCE_MAX; texts are borrowed from the result and the list. Gives their number. */
size_t provenance_list(const struct inference *inference, const pen_result *result,
                       struct provenance ret_list[PROVENANCE_MAX]);

#endif
