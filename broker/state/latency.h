/*
 * latency.h - how long one worker takes for a batch of one model, by its rows: the warm-up time at first, then a
 * running mean per size.
 *
 * Each size that was warmed up or has run is a point, up to LATENCY_POINTS. Between two points the time is interpolated
 * linearly; beyond the last one it grows in proportion. Execution times of one model on one device hardly vary
 * (Clockwork), so a mean with weight 1/8 for the newest is a good forecast. A stray is a time of more than four times
 * the mean (or the warm-up time), or of less than a quarter. It counts as twice or half of the mean; the third stray in
 * a row is taken as a change and replaces the mean. A point that is not measured again fades, so that a size that was
 * slow for a while is tried again: every LATENCY_FADE_US it loses half of what it is above the warm-up time, or,
 * without one, above the line between its neighbours. A point with neither is forgotten after LATENCY_FADES of these
 * steps.
 *
 * Which size gives the most rows per second follows from the points. A size that does not look best is tried again now
 * and then (latency_explore), for at most 1 / LATENCY_EXPLORE of the time, because it may have been measured in a bad
 * moment.
 * Threads: one-at-a-time.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_POINTS     16u
#define LATENCY_SEEDS      12u    /* so many points at most come from warm-up times */
#define LATENCY_UNKNOWN_US 10000u /* assumed when nothing is known: allows two messages per slot and no more */
#define LATENCY_STRAY      4u
#define LATENCY_STRAYS     3u
#define LATENCY_FADE_US    30000000u
#define LATENCY_FADES      20u
#define LATENCY_MESSAGE_US 10u      /* per batch, besides its execution: one message there and one back */
#define LATENCY_TIE        16u      /* sizes whose cost per row differs by 1/16 or less count as equal */
#define LATENCY_STALE_US   3000000u /* a point of this age is worth measuring again */
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
    uint64_t explore_us;                         /* do not explore before this time; 0 = not asked yet */
    uint16_t count;
    uint16_t best; /* latency_best of all points */
};

void latency_seed(struct latency_model *latency, uint32_t rows, uint64_t us); /* a warm-up time from the hello */
/* A measurement; the first replaces the seed. */
void latency_learn(struct latency_model *latency, uint32_t rows, uint64_t us, uint64_t now_us);
void latency_fade(struct latency_model *latency, uint64_t now_us); /* call before a forecast; cheap if nothing is due */
bool latency_known(const struct latency_model *latency);           /* anything at all */
/* Expected time for a batch of so many rows; LATENCY_UNKNOWN_US when nothing is known. */
uint64_t latency_expect_us(const struct latency_model *latency, uint32_t rows);

/*
 * The best number of rows for a batch, at most `most`: 1 when no size makes a row cheaper, else the largest size at
 * which a row costs about the least. Only warmed-up sizes and `most` are compared, because another size may have run
 * once by chance. A size beyond all points has not been tried yet and counts as better than all of them.
 */
uint32_t latency_best(const struct latency_model *latency, uint32_t most);
/* The same for `most` of all sizes that the worker takes, kept from the last computation: for frequent calls. */
uint32_t latency_target(const struct latency_model *latency, uint32_t most);
/* A size of at most `most` rows whose time should be measured again now, 0 = none. The caller must run it, because
   its time is counted already. */
uint32_t latency_explore(struct latency_model *latency, uint32_t most, uint64_t now_us);

#endif
