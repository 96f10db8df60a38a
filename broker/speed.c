#include "speed.h"

#include <stdbool.h>

static unsigned class_of(uint32_t batch)
{
    unsigned class = 0;
    while (class + 1 < SPEED_CLASSES && batch >> (class + 1))
        class ++;
    return class;
}

static uint32_t clamp(uint64_t us)
{
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static uint32_t low_ms(uint64_t now_us)
{
    return (uint32_t)(now_us / 1000u);
}

void speed_seed(struct speed *speed, uint32_t batch, uint64_t us)
{
    unsigned class = class_of(batch);
    speed->seed_us[class] = clamp(us);
    if (speed->measured >> class & 1)
        return;
    speed->us[class] = clamp(us);
    speed->seeded |= (uint8_t)(1u << class);
}

/* What a measurement counts as beside the mean so far. */
static uint32_t weighed(struct speed *speed, unsigned class, uint32_t us)
{
    uint32_t mean = speed->us[class];
    bool above = us / SPEED_STRAY > mean, below = us < mean / SPEED_STRAY;
    if (!above && !below) {
        speed->strays[class] = 0;
        return us;
    }
    if (++speed->strays[class] < SPEED_STRAYS)
        return above ? clamp(2 * (uint64_t)mean) : mean / 2;
    speed->strays[class] = 0;
    speed->us[class] = us;
    return us;
}

void speed_learn(struct speed *speed, uint32_t batch, uint64_t us, uint64_t now_us)
{
    unsigned class = class_of(batch);
    uint32_t newest = clamp(us);
    if (speed->measured >> class & 1) {
        newest = weighed(speed, class, newest);
        int64_t mean = speed->us[class];
        newest = (uint32_t)(mean + ((int64_t)newest - mean) / 8);
    }
    speed->us[class] = newest;
    speed->at_ms[class] = low_ms(now_us);
    speed->measured |= (uint8_t)(1u << class);
}

/* age: in units of SPEED_FADE_US, at least 1. */
static void class_fade(struct speed *speed, unsigned class, uint32_t age)
{
    uint32_t seed_us = speed->seed_us[class], us = speed->us[class];
    if (seed_us == 0) {
        if (age >= SPEED_FADES)
            speed->measured &= (uint8_t) ~(1u << class);
        return;
    }
    if (us > seed_us)
        speed->us[class] = seed_us + (age < SPEED_FADES ? (us - seed_us) >> age : 0);
    speed->at_ms[class] += age * (SPEED_FADE_US / 1000u);
}

void speed_fade(struct speed *speed, uint64_t now_us)
{
    uint32_t now_ms = low_ms(now_us);
    for (unsigned class = 0; class < SPEED_CLASSES && speed->measured >> class; class ++) {
        uint32_t age = (now_ms - speed->at_ms[class]) / (SPEED_FADE_US / 1000u);
        if (speed->measured >> class & 1 && age > 0)
            class_fade(speed, class, age);
    }
}

/* An unknown class is scaled up from the next smaller known one, else taken from the next larger (never too optimistic). */
uint64_t speed_expect_us(const struct speed *speed, uint32_t batch)
{
    unsigned class = class_of(batch);
    unsigned known = speed->seeded | speed->measured;
    if (known >> class & 1)
        return speed->us[class];
    for (unsigned c = class; c-- > 0;) {
        if (known >> c & 1)
            return (uint64_t)speed->us[c] * batch >> c;
    }
    for (unsigned c = class + 1; c < SPEED_CLASSES; c++) {
        if (known >> c & 1)
            return speed->us[c];
    }
    return SPEED_UNKNOWN_US;
}
