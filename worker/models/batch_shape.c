/* batch_shape.c - rent (filling rows) until the rent exceeds the price (preparing), then buy. */
#include "batch_shape.h"

/* The finaliser of splitmix64 after each word: FNV over words finds equal sums for unlike shapes. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    uint64_t x = hash + word * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t batch_shape_of(const struct pen_tensor *inputs, size_t count, bool batched)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = mix(hash, inputs[i].rank);
        for (uint32_t d = batched ? 1 : 0; d < inputs[i].rank; d++)
            hash = mix(hash, (uint64_t)inputs[i].dims[d]);
    }
    return hash;
}

static const struct warm_time *warm_at(const struct warm_time *warm, size_t count, uint64_t shape, uint32_t rows)
{
    for (size_t i = 0; i < count; i++)
        if (warm[i].shape == shape && warm[i].batch == rows)
            return &warm[i];
    return NULL;
}

bool batch_shape_warmed(const struct warm_time *warm, size_t warm_count, uint64_t shape, uint32_t rows)
{
    return warm_at(warm, warm_count, shape, rows) != NULL;
}

/* The nearest warmed sizes of that shape below and above; NULL where there is none. */
static void neighbours(const struct warm_time *warm, size_t count, uint64_t shape, uint32_t rows,
                       const struct warm_time **ret_below, const struct warm_time **ret_above)
{
    *ret_below = *ret_above = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct warm_time *w = &warm[i];
        if (w->shape != shape)
            continue;
        if (w->batch < rows && (!*ret_below || w->batch > (*ret_below)->batch))
            *ret_below = w;
        if (w->batch > rows && (!*ret_above || w->batch < (*ret_above)->batch))
            *ret_above = w;
    }
}

/* The cost of the filling rows: the measured time of the larger size, minus the time interpolated between both
   neighbours at `rows`. */
static uint64_t waste_us(const struct warm_time *below, const struct warm_time *above, uint32_t rows)
{
    uint64_t low_us = below ? below->warm_us : 0;
    uint32_t low = below ? below->batch : 0;
    if (above->warm_us <= low_us)
        return 0;
    return (above->warm_us - low_us) * (above->batch - rows) / (above->batch - low);
}

static uint64_t prepare_us(const struct warm_time *above)
{
    return above->cold_us > above->warm_us ? above->cold_us - above->warm_us : 0;
}

/* The entry of that size; a new one when there is room beside the warmed ones, else -1. */
static int learnt_entry(struct batch_shape *batch_shape, size_t warm_count, uint64_t shape, uint32_t rows)
{
    for (size_t i = 0; i < batch_shape->learnt_count; i++)
        if (batch_shape->learnt[i].shape == shape && batch_shape->learnt[i].rows == rows)
            return (int)i;
    if (batch_shape->learnt_count == BATCH_SHAPE_LEARNT_MAX ||
        warm_count + batch_shape->learnt_count >= BATCH_SHAPE_READY_MAX)
        return -1;
    batch_shape->learnt[batch_shape->learnt_count].shape = shape;
    batch_shape->learnt[batch_shape->learnt_count].rows = rows;
    return (int)batch_shape->learnt_count++;
}

uint32_t batch_shape_rows(struct batch_shape *batch_shape, const struct warm_time *warm, size_t warm_count,
                          uint64_t shape, uint32_t rows)
{
    const struct warm_time *below, *above;
    if (batch_shape->exact || batch_shape_warmed(warm, warm_count, shape, rows))
        return rows;
    neighbours(warm, warm_count, shape, rows, &below, &above);
    if (!above)
        return rows;
    int entry = learnt_entry(batch_shape, warm_count, shape, rows);
    if (entry < 0)
        return above->batch;
    if (!batch_shape->learnt[entry].ready) {
        batch_shape->learnt[entry].waste_us += waste_us(below, above, rows);
        batch_shape->learnt[entry].ready = batch_shape->learnt[entry].waste_us > prepare_us(above);
    }
    return batch_shape->learnt[entry].ready ? rows : above->batch;
}

void batch_shape_exact(struct batch_shape *batch_shape)
{
    batch_shape->exact = true;
}
