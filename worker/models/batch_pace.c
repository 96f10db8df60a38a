/* batch_pace.c - a mean per size, and the size with the cheapest rows. */
#include "batch_pace.h"

/* Another slot may learn at the same time: one of both times is lost, and the next run brings another. */
void batch_pace_learn(struct batch_pace *pace, uint32_t rows, uint64_t us)
{
    if (rows == 0)
        return;
    uint32_t place = rows < BATCH_PACE_ROWS ? rows : BATCH_PACE_ROWS;
    us = us * place / rows;
    uint32_t newest = us == 0 ? 1 : us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    uint32_t mean = atomic_load_explicit(&pace->us[place], memory_order_relaxed);
    if (mean)
        newest = (uint32_t)(((uint64_t)mean * 7 + newest + 4) / 8);
    atomic_store_explicit(&pace->us[place], newest ? newest : 1, memory_order_relaxed);
}

/* Nanoseconds of a row. */
static uint64_t cost_ns(uint32_t rows, uint64_t us)
{
    return (us + BATCH_PACE_RUN_US) * 1000 / rows;
}

struct cheapest {
    uint64_t ns;
    uint32_t rows;
};

/* Of sizes that cost the same, the larger one. */
static void cheapest_offer(struct cheapest *best, uint32_t rows, uint64_t us)
{
    uint64_t ns = cost_ns(rows, us);
    if (best->rows == 0 || ns < best->ns || (ns == best->ns && rows > best->rows))
        *best = (struct cheapest){ns, rows};
}

uint32_t batch_pace_rows(struct batch_pace *pace, const struct warm_time *warm, size_t warm_count, uint32_t rows_most)
{
    struct cheapest best = {0};
    uint32_t known = rows_most < BATCH_PACE_ROWS ? rows_most : BATCH_PACE_ROWS;
    if ((atomic_fetch_add_explicit(&pace->asked, 1, memory_order_relaxed) + 1) % BATCH_PACE_EXPLORE == 0)
        return rows_most;
    for (uint32_t rows = 1; rows <= known; rows++) {
        uint32_t us = atomic_load_explicit(&pace->us[rows], memory_order_relaxed);
        if (us)
            cheapest_offer(&best, rows, us);
    }
    for (size_t i = 0; i < warm_count; i++) {
        bool ran = warm[i].batch <= BATCH_PACE_ROWS &&
                   atomic_load_explicit(&pace->us[warm[i].batch], memory_order_relaxed) > 0;
        if (warm[i].batch > 0 && warm[i].batch <= rows_most && warm[i].warm_us > 0 && !ran)
            cheapest_offer(&best, warm[i].batch, warm[i].warm_us);
    }
    return best.rows ? best.rows : rows_most;
}
