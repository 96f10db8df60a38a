#include "speed.h"

#include <string.h>

static uint32_t clamp(uint64_t us)
{
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static uint32_t low_ms(uint64_t now_us)
{
    return (uint32_t)(now_us / 1000u);
}

/* ---- points ---- */

/* The first point of at least so many rows; count: there is none. */
static unsigned point_from(const struct speed *speed, uint32_t rows)
{
    unsigned i = 0;
    while (i < speed->count && speed->points[i].rows < rows)
        i++;
    return i;
}

/* At `rows` on the line through two points. */
static uint64_t line_us(const struct speed_point *low, const struct speed_point *high, uint32_t rows)
{
    int64_t rise = (int64_t)high->us - (int64_t)low->us;
    int64_t along = (int64_t)rows - low->rows, whole = (int64_t)high->rows - low->rows;
    return (uint64_t)(low->us + rise * along / whole);
}

static void point_drop(struct speed *speed, unsigned index)
{
    speed->count--;
    memmove(&speed->points[index], &speed->points[index + 1], (speed->count - index) * sizeof speed->points[0]);
}

/* Room for one more: in place of the size that was not measured for longest, never of a warmed one. */
static bool make_room(struct speed *speed, uint32_t now_ms)
{
    unsigned oldest = SPEED_POINTS;
    if (speed->count < SPEED_POINTS)
        return true;
    for (unsigned i = 0; i < speed->count; i++) {
        const struct speed_point *p = &speed->points[i];
        if (p->seed_us == 0 && (oldest == SPEED_POINTS || now_ms - p->at_ms > now_ms - speed->points[oldest].at_ms))
            oldest = i;
    }
    if (oldest == SPEED_POINTS)
        return false;
    point_drop(speed, oldest);
    return true;
}

/* The point of that size, a new one where there is none; NULL: no room. */
static struct speed_point *point_of(struct speed *speed, uint32_t rows, uint32_t now_ms)
{
    uint16_t size = rows > UINT16_MAX ? UINT16_MAX : (uint16_t)rows;
    unsigned i = point_from(speed, size);
    if (i < speed->count && speed->points[i].rows == size)
        return &speed->points[i];
    if (!make_room(speed, now_ms))
        return NULL;
    i = point_from(speed, size);
    memmove(&speed->points[i + 1], &speed->points[i], (speed->count - i) * sizeof speed->points[0]);
    speed->count++;
    speed->points[i] = (struct speed_point){.rows = size};
    return &speed->points[i];
}

/* ---- the best size ---- */

static uint64_t row_cost(uint64_t us, uint32_t rows)
{
    return ((us + SPEED_MESSAGE_US) << 10) / rows;
}

static bool as_cheap(uint64_t cost, uint64_t least)
{
    return cost <= least + least / SPEED_TIE;
}

uint32_t speed_best(const struct speed *speed, uint32_t most)
{
    if (most <= 1 || speed->count == 0 || speed->points[speed->count - 1].rows < most)
        return most ? most : 1;
    uint64_t one = row_cost(speed_expect_us(speed, 1), 1), all = row_cost(speed_expect_us(speed, most), most);
    uint64_t least = one < all ? one : all;
    for (unsigned i = 0; i < speed->count && speed->points[i].rows < most; i++) {
        uint64_t cost = row_cost(speed->points[i].us, speed->points[i].rows);
        least = speed->points[i].seed_us && cost < least ? cost : least;
    }
    if (as_cheap(one, least))
        return 1;
    if (as_cheap(all, least))
        return most;
    for (unsigned i = point_from(speed, most); i-- > 0;) {
        const struct speed_point *p = &speed->points[i];
        if (p->seed_us && as_cheap(row_cost(p->us, p->rows), least))
            return p->rows;
    }
    return 1;
}

uint32_t speed_target(const struct speed *speed, uint32_t most)
{
    if (most <= 1 || speed->count == 0 || speed->points[speed->count - 1].rows < most)
        return most ? most : 1;
    return speed->best < most ? speed->best : most;
}

static void best_update(struct speed *speed)
{
    speed->best = speed->count ? (uint16_t)speed_best(speed, speed->points[speed->count - 1].rows) : 0;
}

/* One that never was measured is the first to be looked at. */
static uint32_t stale_ms(const struct speed_point *point, uint32_t now_ms)
{
    return point->measured ? now_ms - point->at_ms : UINT32_MAX;
}

uint32_t speed_explore(struct speed *speed, uint32_t most, uint64_t now_us)
{
    uint32_t best = speed_best(speed, most), longest_ms = SPEED_STALE_US / 1000u;
    const struct speed_point *chosen = NULL;
    if (speed->explore_us == 0)
        speed->explore_us = now_us + SPEED_STALE_US; /* warm-up times are news */
    if (most <= 1 || now_us < speed->explore_us)
        return 0;
    for (unsigned i = 0; i < speed->count && speed->points[i].rows <= most; i++) {
        const struct speed_point *p = &speed->points[i];
        if ((p->seed_us || p->rows == 1) && p->rows != best && stale_ms(p, low_ms(now_us)) > longest_ms) {
            longest_ms = stale_ms(p, low_ms(now_us));
            chosen = p;
        }
    }
    if (!chosen)
        return 0;
    speed->explore_us = now_us + (uint64_t)SPEED_EXPLORE * (chosen->us + SPEED_MESSAGE_US);
    return chosen->rows;
}

/* ---- learning ---- */

void speed_seed(struct speed *speed, uint32_t rows, uint64_t us)
{
    unsigned i = point_from(speed, rows);
    if (speed->count >= SPEED_SEEDS && (i == speed->count || speed->points[i].rows != rows))
        return;
    struct speed_point *point = point_of(speed, rows, 0);
    point->seed_us = clamp(us);
    if (!point->measured)
        point->us = clamp(us);
    best_update(speed);
}

/* What a measurement counts as beside the mean so far. */
static uint32_t weighed(struct speed_point *point, uint32_t us)
{
    uint32_t mean = point->us;
    bool above = us / SPEED_STRAY > mean, below = us < mean / SPEED_STRAY;
    if (!above && !below) {
        point->strays = 0;
        return us;
    }
    if (++point->strays < SPEED_STRAYS)
        return above ? clamp(2 * (uint64_t)mean) : mean / 2;
    point->strays = 0;
    point->us = us;
    return us;
}

void speed_learn(struct speed *speed, uint32_t rows, uint64_t us, uint64_t now_us)
{
    uint32_t newest = clamp(us);
    struct speed_point *point = point_of(speed, rows ? rows : 1, low_ms(now_us));
    if (!point)
        return;
    if (point->measured || point->seed_us)
        newest = weighed(point, newest);
    if (point->measured) {
        int64_t mean = point->us;
        newest = (uint32_t)(mean + ((int64_t)newest - mean) / 8);
    }
    point->us = newest;
    point->at_ms = low_ms(now_us);
    point->fades = 0;
    point->measured = true;
    best_update(speed);
}

/* What a time that nobody measures again tends to; 0 = nothing is known. */
static uint64_t calm_us(const struct speed *speed, unsigned index)
{
    if (speed->points[index].seed_us)
        return speed->points[index].seed_us;
    if (index == 0 || index + 1u >= speed->count)
        return 0;
    return line_us(&speed->points[index - 1], &speed->points[index + 1], speed->points[index].rows);
}

/* Since the last measurement, in units of SPEED_FADE_US. */
static uint32_t point_age(const struct speed_point *point, uint32_t now_ms)
{
    uint32_t age = point->measured ? (now_ms - point->at_ms) / (SPEED_FADE_US / 1000u) : 0;
    return age < SPEED_FADES ? age : SPEED_FADES;
}

/* False: the point is forgotten. */
static bool point_fade(struct speed *speed, unsigned index, uint32_t age)
{
    struct speed_point *point = &speed->points[index];
    uint32_t calm = clamp(calm_us(speed, index)), steps = age - point->fades;
    point->fades = (uint8_t)age;
    if (calm > 0 && point->us > calm)
        point->us = calm + (steps < SPEED_FADES ? (point->us - calm) >> steps : 0);
    return calm > 0 || age < SPEED_FADES;
}

void speed_fade(struct speed *speed, uint64_t now_us)
{
    bool changed = false;
    for (unsigned i = 0; i < speed->count;) {
        uint32_t age = point_age(&speed->points[i], low_ms(now_us));
        bool due = age > speed->points[i].fades;
        changed |= due;
        if (due && !point_fade(speed, i, age))
            point_drop(speed, i);
        else
            i++;
    }
    if (changed)
        best_update(speed);
}

/* ---- asking ---- */

bool speed_known(const struct speed *speed)
{
    return speed->count > 0;
}

/* Never too optimistic: below the first point as long as that one, beyond the last in proportion. */
uint64_t speed_expect_us(const struct speed *speed, uint32_t rows)
{
    if (speed->count == 0)
        return SPEED_UNKNOWN_US;
    unsigned i = point_from(speed, rows);
    if (i == speed->count)
        return (uint64_t)speed->points[i - 1].us * rows / speed->points[i - 1].rows;
    if (i == 0 || speed->points[i].rows == rows)
        return speed->points[i].us;
    return line_us(&speed->points[i - 1], &speed->points[i], rows);
}
