/*
 * speed.h - how long one worker takes for a batch of one model: warm-up times until measured, then a running mean per batch size.
 *
 * Batch sizes fall into classes 1, 2-3, 4-7, ... 64. Execution times of one model on one device hardly vary (Clockwork), so a mean with
 * weight 1/8 for the newest is a good forecast. A stray (more than four times the mean, or less than a quarter) counts as twice or half of it; the
 * third in a row is no stray but a change, and replaces it. What is not measured again fades: every SPEED_FADE_US half of what it is above the warm-up
 * time is forgotten, so that a worker that was slow for a while is tried again; without a warm-up time it is forgotten after SPEED_FADES of them.
 * Threads: one-at-a-time.
 */
#ifndef SPEED_H
#define SPEED_H

#include <stdint.h>

#define SPEED_CLASSES    7u
#define SPEED_UNKNOWN_US 10000u /* nothing known: two messages a slot, no more */
#define SPEED_STRAY      4u
#define SPEED_STRAYS     3u
#define SPEED_FADE_US    30000000u
#define SPEED_FADES      20u

struct speed {
    uint32_t us[SPEED_CLASSES];      /* for the whole batch */
    uint32_t seed_us[SPEED_CLASSES]; /* the warm-up time; 0 = none */
    uint32_t at_ms[SPEED_CLASSES];   /* of the last measurement, or of the last fading; wraps */
    uint8_t strays[SPEED_CLASSES];   /* in a row */
    uint8_t seeded, measured;        /* bit per class */
};

void speed_seed(struct speed *speed, uint32_t batch, uint64_t us); /* a warm time of the hello */
/* A measurement; the first replaces the seed. */
void speed_learn(struct speed *speed, uint32_t batch, uint64_t us, uint64_t now_us);
void speed_fade(struct speed *speed, uint64_t now_us); /* cheap when nothing is due: before a forecast */
uint64_t speed_expect_us(const struct speed *speed, uint32_t batch);

#endif
