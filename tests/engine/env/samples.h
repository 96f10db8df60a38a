/*
 * samples.h - what each flag does: a sample flips it and looks at a counter, a placement or a refusal.
 *
 * Threads: one test's.
 */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "world.h"

#define SAMPLE(flag) void sample_##flag(void);
#include "samples.def"
#undef SAMPLE

#endif
