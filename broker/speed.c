#include "speed.h"

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

void speed_seed(struct speed *speed, uint32_t batch, uint64_t us)
{
    unsigned class = class_of(batch);
    if (speed->measured >> class & 1)
        return;
    speed->us[class] = clamp(us);
    speed->seeded |= (uint8_t)(1u << class);
}

void speed_learn(struct speed *speed, uint32_t batch, uint64_t us)
{
    unsigned class = class_of(batch);
    int64_t mean = speed->us[class];
    if (speed->measured >> class & 1)
        mean += ((int64_t)clamp(us) - mean) / 8;
    else
        mean = clamp(us);
    speed->us[class] = (uint32_t)mean;
    speed->measured |= (uint8_t)(1u << class);
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
