/*
 * batch_pace.h - how many rows of a batch pay, by what runs have taken: behind the decoders the worker composes batches itself, and not every model gains by larger ones.
 *
 * Each size keeps a mean of its runs' times with weight 1/8 for the newest; sizes that never ran have their warm-up time. The cost of a row is that of its run and of the
 * messages around it, divided by the run's rows. The size with the cheapest rows is the most that is composed. Now and then any size is, because one may have been
 * measured in a bad moment.
 *
 * Threads: any.
 */
#ifndef BATCH_PACE_H
#define BATCH_PACE_H

#include <stdatomic.h>

#include "batch_shape.h"

#define BATCH_PACE_ROWS    64u /* larger runs count as this size, by their rows */
#define BATCH_PACE_RUN_US  50u /* what a run costs besides the engine: a message there and one back */
#define BATCH_PACE_EXPLORE 32u /* every so many questions the answer is rows_most */

struct batch_pace {
    atomic_uint us[BATCH_PACE_ROWS + 1]; /* by rows; 0 = never ran */
    atomic_uint asked;
};

void batch_pace_learn(struct batch_pace *pace, uint32_t rows, uint64_t us);
/* The size to compose at most: 1 to rows_most; rows_most where nothing is known. warm: the model's warm-up times. */
uint32_t batch_pace_rows(struct batch_pace *pace, const struct warm_time *warm, size_t warm_count, uint32_t rows_most);

#endif
