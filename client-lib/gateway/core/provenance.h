/*
 * provenance.h - what an answer's numbers rest on, as parameters of the answer: backend, device, precision, library, instruction set, engine build, age, measured
 * error.
 *
 * Threads: any (pure functions).
 */
#ifndef PROVENANCE_H
#define PROVENANCE_H

#include <stddef.h>

#include "penstock/client.h"

#define PROVENANCE_MAX        12
#define PROVENANCE_TEXT_BYTES 32

/* A parameter of the answer: a text. */
struct provenance {
    const char *name, *value;
    char number[PROVENANCE_TEXT_BYTES]; /* what `value` points to when it is one */
};

/* Fills at most PROVENANCE_MAX of them; texts are borrowed from the result and the list. Gives their number. */
size_t provenance_list(const pen_result *result, struct provenance ret_list[PROVENANCE_MAX]);

#endif
