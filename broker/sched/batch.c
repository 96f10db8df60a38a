/* batch.c - by rules and facts: a full or preferred size, what was measured, the delay, the deadline. */
#include "batch.h"

static struct batch_choice take(uint32_t rows, enum close_reason reason)
{
    return (struct batch_choice){.rows = rows ? rows : 1, .reason = reason, .wake_us = UINT64_MAX};
}

static uint32_t least(uint64_t rows, uint32_t most)
{
    return rows < most ? (uint32_t)rows : most;
}

/* Closes the batch with the jobs that are there, except for a number of rows that would make it slower. */
static struct batch_choice take_waiting(const struct batch_rules *rules, const struct batch_facts *facts,
                                        enum close_reason reason)
{
    uint32_t waiting = least(facts->rows_waiting, rules->rows_max);
    uint32_t best = latency_best(rules->latency, waiting);
    return take(best, best < waiting ? CLOSE_BEST : reason);
}

/* The largest preferred size that is already there and pays; 0 = none. */
static uint32_t preferred_rows(const struct batch_rules *rules, uint64_t waiting)
{
    uint32_t best = 0;
    for (size_t i = 0; i < rules->preferred_count; i++) {
        uint32_t rows = rules->preferred[i];
        if (rows <= waiting && rows <= rules->rows_max && rows > best && latency_best(rules->latency, rows) > 1)
            best = rows;
    }
    return best;
}

/* When time closes the batch, and why; *ret_close_us is that time. */
static enum close_reason close_time(const struct batch_rules *rules, const struct batch_facts *facts,
                                    uint64_t *ret_close_us)
{
    uint64_t expect_us = latency_expect_us(rules->latency, least(facts->rows_waiting + 1, rules->rows_max));
    uint64_t start_us = facts->deadline_us > expect_us ? facts->deadline_us - expect_us : 0;
    *ret_close_us = facts->oldest_us + rules->delay_us;
    if (facts->deadline_us == UINT64_MAX || start_us >= *ret_close_us)
        return CLOSE_DELAY;
    *ret_close_us = start_us;
    return CLOSE_DEADLINE;
}

struct batch_choice batch_close(const struct batch_rules *rules, const struct batch_facts *facts)
{
    uint64_t close_us;
    if (rules->rows_max <= 1)
        return take(1, CLOSE_SINGLE);
    uint32_t target = latency_target(rules->latency, rules->rows_max);
    if (target == 1)
        return take(1, CLOSE_UNPAID);
    uint32_t preferred = preferred_rows(rules, facts->rows_waiting);
    if (facts->rows_waiting < rules->rows_max && preferred)
        return take(preferred, CLOSE_FULL);
    if (facts->rows_waiting >= target)
        return take(target, target == rules->rows_max ? CLOSE_FULL : CLOSE_BEST);
    /* A caller that waits for each answer before it asks again never fills a batch: each of its jobs would lose the
       delay of 500 us. */
    if (rules->delay_us == 0 || facts->solo_batches >= BATCH_SOLO_MAX)
        return take_waiting(rules, facts, CLOSE_IDLE);
    enum close_reason reason = close_time(rules, facts, &close_us);
    if (facts->now_us >= close_us)
        return take_waiting(rules, facts, reason);
    return (struct batch_choice){.rows = 0, .reason = CLOSE_NONE, .wake_us = close_us};
}

bool batch_may_explore(const struct batch_rules *rules, const struct batch_facts *facts)
{
    uint64_t left_us = facts->deadline_us > facts->now_us ? facts->deadline_us - facts->now_us : 0;
    uint32_t rows = least(facts->rows_waiting, rules->rows_max);
    return rows > 1 && latency_expect_us(rules->latency, rows) <= left_us / BATCH_SLACK;
}

bool batch_wait_paid(const struct latency_model *latency, uint32_t jobs, uint64_t waited_us)
{
    return jobs > 1 && (uint64_t)(jobs - 1) * latency_expect_us(latency, 1) > jobs * waited_us;
}
