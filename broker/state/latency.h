/*
 * latency.h - how long one worker takes for a batch of one model, by its rows: warm-up times until measured, then a running mean per size.
 *
 * Each size that was warmed or has run is a point of its own, up to LATENCY_POINTS; between two points a line, beyond the last one in proportion. Execution
 * times of one model on one device hardly vary (Clockwork), so a mean with weight 1/8 for the newest is a good forecast. A stray (more than four times the
 * mean or the warm-up time, or less than a quarter) counts as twice or half of it; the third in a row is no stray but a change, and replaces it. What is not measured again
 * fades: every LATENCY_FADE_US half of what it is above the warm-up time (without one: above the line between its neighbours) is forgotten, so that what was
 * slow for a while is tried again; without either it is forgotten after LATENCY_FADES of them.
 *
 * Which size gives the most rows per second follows from the points. A size that does not look best is tried again now and then (latency_explore), for at
 * most a share of 1 / LATENCY_EXPLORE of the time: what was measured in a bad moment is not held against it for ever.
 * Threads: one-at-a-time.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_POINTS     16u
#define LATENCY_SEEDS      12u    /* of them at most from warm-up times */
#define LATENCY_UNKNOWN_US 10000u /* nothing known: two messages a slot, no more */
#define LATENCY_STRAY      4u
#define LATENCY_STRAYS     3u
#define LATENCY_FADE_US    30000000u
#define LATENCY_FADES      20u
#define LATENCY_MESSAGE_US 10u /* of a batch beside its execution: one message there and one back, whatever its rows */
#define LATENCY_TIE        16u /* sizes whose rows cost 1/16 more or less are as good */
#define LATENCY_STALE_US   3000000u /* after so long a time is worth another look */
#define LATENCY_EXPLORE    64u

struct latency_point {
    uint32_t us;      /* for the whole batch */
    uint32_t seed_us; /* the warm-up time; 0 = none */
    uint32_t at_ms;   /* of the last measurement; wraps */
    uint16_t rows;
    uint8_t strays; /* in a row */
    uint8_t fades;  /* since the last measurement */
    bool measured;
};

struct latency_model {
    struct latency_point points[LATENCY_POINTS]; /* by rows, ascending */
    uint64_t explore_us;                         /* not before this time; 0 = not asked yet */
    uint16_t count;
    uint16_t best; /* latency_best of all points */
};

void latency_seed(struct latency_model *latency, uint32_t rows, uint64_t us); /* a warm time of the hello */
/* A measurement; the first replaces the seed. */
void latency_learn(struct latency_model *latency, uint32_t rows, uint64_t us, uint64_t now_us);
void latency_fade(struct latency_model *latency, uint64_t now_us); /* cheap when nothing is due: before a forecast */
bool latency_known(const struct latency_model *latency);           /* anything at all */
/* For a batch of so many rows; LATENCY_UNKNOWN_US where nothing is known. */
uint64_t latency_expect_us(const struct latency_model *latency, uint32_t rows);

/*
 * The rows, at most `most`, that a batch should have: 1 where no size makes a row cheaper, else the largest of those that make it about as cheap as can be.
 * Weighed are the warmed sizes and `most` itself: what ran once by chance at another size is too little to choose by. A size beyond all points has not
 * been tried yet and counts as better than all of them.
 */
uint32_t latency_best(const struct latency_model *latency, uint32_t most);
/* The same for `most` of all sizes that the worker takes, from what was last computed: for who asks often. */
uint32_t latency_target(const struct latency_model *latency, uint32_t most);
/* A size of at most `most` rows whose time should be looked at again now, 0 = none. The caller runs it: its time is booked. */
uint32_t latency_explore(struct latency_model *latency, uint32_t most, uint64_t now_us);

#endif
