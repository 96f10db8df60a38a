#include "latency.h"

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

/* The first point with at least so many rows; count: there is none. */
static unsigned point_from(const struct latency_model *latency, uint32_t rows)
{
    unsigned i = 0;
    while (i < latency->count && latency->points[i].rows < rows)
        i++;
    return i;
}

/* The time at `rows` on the line through two points. */
static uint64_t line_us(const struct latency_point *low, const struct latency_point *high, uint32_t rows)
{
    int64_t rise = (int64_t)high->us - (int64_t)low->us;
    int64_t along = (int64_t)rows - low->rows, whole = (int64_t)high->rows - low->rows;
    return (uint64_t)(low->us + rise * along / whole);
}

static void point_drop(struct latency_model *latency, unsigned index)
{
    latency->count--;
    memmove(&latency->points[index], &latency->points[index + 1], (latency->count - index) * sizeof latency->points[0]);
}

/* Makes room for one more point: replaces the one that was measured longest ago, but never one that was warmed up. */
static bool make_room(struct latency_model *latency, uint32_t now_ms)
{
    unsigned oldest = LATENCY_POINTS;
    if (latency->count < LATENCY_POINTS)
        return true;
    for (unsigned i = 0; i < latency->count; i++) {
        const struct latency_point *p = &latency->points[i];
        if (p->seed_us == 0 && (oldest == LATENCY_POINTS || now_ms - p->at_ms > now_ms - latency->points[oldest].at_ms))
            oldest = i;
    }
    if (oldest == LATENCY_POINTS)
        return false;
    point_drop(latency, oldest);
    return true;
}

/* The point of that size, a new one where there is none; NULL: no room. */
static struct latency_point *point_of(struct latency_model *latency, uint32_t rows, uint32_t now_ms)
{
    uint16_t size = rows > UINT16_MAX ? UINT16_MAX : (uint16_t)rows;
    unsigned i = point_from(latency, size);
    if (i < latency->count && latency->points[i].rows == size)
        return &latency->points[i];
    if (!make_room(latency, now_ms))
        return NULL;
    i = point_from(latency, size);
    memmove(&latency->points[i + 1], &latency->points[i], (latency->count - i) * sizeof latency->points[0]);
    latency->count++;
    latency->points[i] = (struct latency_point){.rows = size};
    return &latency->points[i];
}

/* ---- the best size ---- */

static uint64_t row_cost(uint64_t us, uint32_t rows)
{
    return ((us + LATENCY_MESSAGE_US) << 10) / rows;
}

static bool as_cheap(uint64_t cost, uint64_t least)
{
    return cost <= least + least / LATENCY_TIE;
}

uint32_t latency_best(const struct latency_model *latency, uint32_t most)
{
    if (most <= 1 || latency->count == 0 || latency->points[latency->count - 1].rows < most)
        return most ? most : 1;
    uint64_t one = row_cost(latency_expect_us(latency, 1), 1), all = row_cost(latency_expect_us(latency, most), most);
    uint64_t least = one < all ? one : all;
    for (unsigned i = 0; i < latency->count && latency->points[i].rows < most; i++) {
        uint64_t cost = row_cost(latency->points[i].us, latency->points[i].rows);
        least = latency->points[i].seed_us && cost < least ? cost : least;
    }
    if (as_cheap(one, least))
        return 1;
    if (as_cheap(all, least))
        return most;
    for (unsigned i = point_from(latency, most); i-- > 0;) {
        const struct latency_point *p = &latency->points[i];
        if (p->seed_us && as_cheap(row_cost(p->us, p->rows), least))
            return p->rows;
    }
    return 1;
}

uint32_t latency_target(const struct latency_model *latency, uint32_t most)
{
    if (most <= 1 || latency->count == 0 || latency->points[latency->count - 1].rows < most)
        return most ? most : 1;
    return latency->best < most ? latency->best : most;
}

static void best_update(struct latency_model *latency)
{
    latency->best = latency->count ? (uint16_t)latency_best(latency, latency->points[latency->count - 1].rows) : 0;
}

/* A size that was never measured comes first. */
static uint32_t stale_ms(const struct latency_point *point, uint32_t now_ms)
{
    return point->measured ? now_ms - point->at_ms : UINT32_MAX;
}

uint32_t latency_explore(struct latency_model *latency, uint32_t most, uint64_t now_us)
{
    uint32_t best = latency_best(latency, most), longest_ms = LATENCY_STALE_US / 1000u;
    const struct latency_point *chosen = NULL;
    if (latency->explore_us == 0)
        latency->explore_us = now_us + LATENCY_STALE_US; /* warm-up times are news */
    if (most <= 1 || now_us < latency->explore_us)
        return 0;
    for (unsigned i = 0; i < latency->count && latency->points[i].rows <= most; i++) {
        const struct latency_point *p = &latency->points[i];
        if ((p->seed_us || p->rows == 1) && p->rows != best && stale_ms(p, low_ms(now_us)) > longest_ms) {
            longest_ms = stale_ms(p, low_ms(now_us));
            chosen = p;
        }
    }
    if (!chosen)
        return 0;
    latency->explore_us = now_us + (uint64_t)LATENCY_EXPLORE * (chosen->us + LATENCY_MESSAGE_US);
    return chosen->rows;
}

/* ---- learning ---- */

void latency_seed(struct latency_model *latency, uint32_t rows, uint64_t us)
{
    unsigned i = point_from(latency, rows);
    if (latency->count >= LATENCY_SEEDS && (i == latency->count || latency->points[i].rows != rows))
        return;
    struct latency_point *point = point_of(latency, rows, 0);
    point->seed_us = clamp(us);
    if (!point->measured)
        point->us = clamp(us);
    best_update(latency);
}

/* How much a measurement counts, compared with the mean so far. */
static uint32_t weighed(struct latency_point *point, uint32_t us)
{
    uint32_t mean = point->us;
    bool above = us / LATENCY_STRAY > mean, below = us < mean / LATENCY_STRAY;
    if (!above && !below) {
        point->strays = 0;
        return us;
    }
    if (++point->strays < LATENCY_STRAYS)
        return above ? clamp(2 * (uint64_t)mean) : mean / 2;
    point->strays = 0;
    point->us = us;
    return us;
}

void latency_learn(struct latency_model *latency, uint32_t rows, uint64_t us, uint64_t now_us)
{
    uint32_t newest = clamp(us);
    struct latency_point *point = point_of(latency, rows ? rows : 1, low_ms(now_us));
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
    best_update(latency);
}

/* The time towards which a point fades that is not measured again; 0 = unknown. */
static uint64_t calm_us(const struct latency_model *latency, unsigned index)
{
    if (latency->points[index].seed_us)
        return latency->points[index].seed_us;
    if (index == 0 || index + 1u >= latency->count)
        return 0;
    return line_us(&latency->points[index - 1], &latency->points[index + 1], latency->points[index].rows);
}

/* Since the last measurement, in units of LATENCY_FADE_US. */
static uint32_t point_age(const struct latency_point *point, uint32_t now_ms)
{
    uint32_t age = point->measured ? (now_ms - point->at_ms) / (LATENCY_FADE_US / 1000u) : 0;
    return age < LATENCY_FADES ? age : LATENCY_FADES;
}

/* False: the point is forgotten. */
static bool point_fade(struct latency_model *latency, unsigned index, uint32_t age)
{
    struct latency_point *point = &latency->points[index];
    uint32_t calm = clamp(calm_us(latency, index)), steps = age - point->fades;
    point->fades = (uint8_t)age;
    if (calm > 0 && point->us > calm)
        point->us = calm + (steps < LATENCY_FADES ? (point->us - calm) >> steps : 0);
    return calm > 0 || age < LATENCY_FADES;
}

void latency_fade(struct latency_model *latency, uint64_t now_us)
{
    bool changed = false;
    for (unsigned i = 0; i < latency->count;) {
        uint32_t age = point_age(&latency->points[i], low_ms(now_us));
        bool due = age > latency->points[i].fades;
        changed |= due;
        if (due && !point_fade(latency, i, age))
            point_drop(latency, i);
        else
            i++;
    }
    if (changed)
        best_update(latency);
}

/* ---- asking ---- */

bool latency_known(const struct latency_model *latency)
{
    return latency->count > 0;
}

/* Never too optimistic: below the first point the time of that point, beyond the last one in proportion. */
uint64_t latency_expect_us(const struct latency_model *latency, uint32_t rows)
{
    if (latency->count == 0)
        return LATENCY_UNKNOWN_US;
    unsigned i = point_from(latency, rows);
    if (i == latency->count)
        return (uint64_t)latency->points[i - 1].us * rows / latency->points[i - 1].rows;
    if (i == 0 || latency->points[i].rows == rows)
        return latency->points[i].us;
    return line_us(&latency->points[i - 1], &latency->points[i], rows);
}
