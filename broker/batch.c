#include "batch.h"

static struct batch_choice take(uint64_t rows, uint32_t rows_max, const char *reason)
{
    uint32_t most = rows > rows_max ? rows_max : (uint32_t)rows;
    return (struct batch_choice){.rows = most ? most : 1, .reason = reason, .wake_us = UINT64_MAX};
}

/* The largest preferred size that is already there; 0 = none. */
static uint32_t preferred_rows(const struct batch_rules *rules, uint64_t waiting)
{
    uint32_t best = 0;
    for (size_t i = 0; i < rules->preferred_count; i++) {
        uint32_t rows = rules->preferred[i];
        if (rows <= waiting && rows <= rules->rows_max && rows > best)
            best = rows;
    }
    return best;
}

struct batch_choice batch_close(const struct batch_rules *rules, const struct batch_facts *facts)
{
    if (rules->rows_max <= 1)
        return take(1, 1, "single");
    if (facts->rows_waiting >= rules->rows_max)
        return take(rules->rows_max, rules->rows_max, "full");
    uint32_t preferred = preferred_rows(rules, facts->rows_waiting);
    if (preferred)
        return take(preferred, rules->rows_max, "full");
    /* A caller that waits for each answer before it asks again has no company: 500 us of delay would be lost on every job. */
    if (rules->delay_us == 0 || facts->lonely >= BATCH_LONELY)
        return take(facts->rows_waiting, rules->rows_max, "idle");
    uint64_t close_us = facts->oldest_us + rules->delay_us;
    if (facts->now_us >= close_us)
        return take(facts->rows_waiting, rules->rows_max, "delay");
    if (facts->deadline_us != UINT64_MAX) {
        uint64_t start_us = facts->deadline_us > facts->expect_us ? facts->deadline_us - facts->expect_us : 0;
        if (facts->now_us >= start_us)
            return take(facts->rows_waiting, rules->rows_max, "deadline");
        close_us = start_us < close_us ? start_us : close_us;
    }
    return (struct batch_choice){.rows = 0, .reason = "", .wake_us = close_us};
}
