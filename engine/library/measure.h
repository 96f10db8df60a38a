/*
 * measure.h - the measure that runs of the calling thread are part of.
 *
 * Threads: as said.
 */
#ifndef LIBRARY_MEASURE_H
#define LIBRARY_MEASURE_H

#include "penstock/measure.h"

struct measure;

/* The measure that the calling thread is in; NULL = none. Its runs are profiled, */
struct measure *measure_now(void);
/* and their rows given to it and those around it, from any thread, while the one that measures waits for them. */
void measure_rows(struct measure *measure, const struct pen_profile_row *rows, size_t count);

#endif
