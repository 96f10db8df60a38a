/*
 * speed.h - how long one worker takes for a batch of one model: warm-up times until measured, then a running mean per batch size.
 *
 * Batch sizes fall into classes 1, 2-3, 4-7, ... 64. Execution times of one model on one device hardly vary (Clockwork), so a mean with
 * weight 1/8 for the newest is a good forecast. Threads: one-at-a-time.
 */
#ifndef SPEED_H
#define SPEED_H

#include <stdint.h>

#define SPEED_CLASSES    7u
#define SPEED_UNKNOWN_US 10000u /* nothing known: two messages a slot, no more */

struct speed {
    uint32_t us[SPEED_CLASSES]; /* for the whole batch */
    uint8_t seeded, measured;   /* bit per class */
};

void speed_seed(struct speed *speed, uint32_t batch, uint64_t us);  /* a warm time of the hello */
void speed_learn(struct speed *speed, uint32_t batch, uint64_t us); /* a measurement; the first replaces the seed */
uint64_t speed_expect_us(const struct speed *speed, uint32_t batch);

#endif
