#include "history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"

_Static_assert(sizeof(struct history_point) == 72, "what history.h says a track takes");

enum stage { STAGE_QUEUE, STAGE_TRANSFER, STAGE_DECODE, STAGE_COMPUTE, STAGE_TOTAL, STAGES };

/* Counters: they only grow. */
struct counted {
    uint64_t done, failed, rejected, hits, misses;
    struct histogram stages[STAGES];
};

struct track {
    char name[METRICS_NAME_BYTES];
    uint64_t version, last_us;
    bool here; /* the model was in the last snapshot */
    struct counted before, now;
    uint64_t queued, running;
    struct history_point points[HISTORY_STEPS];
};

struct history {
    uint64_t last_us, started_us;
    bool dropped; /* a track was dropped once, so a model whose track begins may have a past */
    struct track *pool, *models[HISTORY_MODELS_MAX];
    uint32_t count;
};

struct history *history_new(void)
{
    struct history *history = calloc(1, sizeof *history);
    if (history)
        history->pool = calloc(1, sizeof *history->pool);
    if (history && !history->pool) {
        free(history);
        return NULL;
    }
    return history;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    for (uint32_t i = 0; i < history->count; i++)
        free(history->models[i]);
    free(history->pool);
    free(history);
}

/* ---- tracks ---- */

static struct track *track_find(const struct history *history, const char *name, uint64_t version)
{
    for (uint32_t i = 0; i < history->count; i++) {
        struct track *track = history->models[i];
        if (track->version == version && strcmp(track->name, name) == 0)
            return track;
    }
    return NULL;
}

static void track_drop(struct history *history, uint32_t place)
{
    PEN_ASSERT(place < history->count, "a track that is dropped is in the list");
    free(history->models[place]);
    history->models[place] = history->models[--history->count];
    history->dropped = true;
}

/* Drops tracks that have had no points for an hour; when the list is full, also the model that has been gone for
   longest. */
static bool make_room(struct history *history, uint64_t now_us)
{
    uint32_t oldest = HISTORY_MODELS_MAX;
    for (uint32_t i = history->count; i-- > 0;)
        if (now_us - history->models[i]->last_us > HISTORY_STEP_US * HISTORY_STEPS)
            track_drop(history, i);
    if (history->count < HISTORY_MODELS_MAX)
        return true;
    for (uint32_t i = 0; i < history->count; i++)
        if (!history->models[i]->here &&
            (oldest == HISTORY_MODELS_MAX || history->models[i]->last_us < history->models[oldest]->last_us))
            oldest = i;
    if (oldest == HISTORY_MODELS_MAX)
        return false;
    track_drop(history, oldest);
    return true;
}

/* *ret_began: the track is new, so what its model has counted so far belongs to no step. */
static struct track *track_for(struct history *history, const struct model_row *row, uint64_t now_us, bool *ret_began)
{
    struct track *track = track_find(history, row->name, row->version);
    *ret_began = false;
    if (track || !make_room(history, now_us))
        return track;
    track = calloc(1, sizeof *track);
    if (!track)
        return NULL;
    snprintf(track->name, sizeof track->name, "%s", row->name);
    track->version = row->version;
    track->here = true;
    PEN_ASSERT(history->count < HISTORY_MODELS_MAX, "there is room for one more track");
    history->models[history->count++] = track;
    *ret_began = history->dropped;
    return track;
}

/* ---- what a snapshot says ---- */

static void count_series(const struct series_tally *series, struct counted *to)
{
    const struct histogram *const from[STAGES] = {&series->queue, &series->transfer, &series->decode, &series->compute,
                                                  &series->total};
    for (unsigned i = 0; i < STAGES; i++)
        histogram_merge(&to->stages[i], from[i]);
}

static void count_pool(const struct snapshot *snapshot, struct track *pool)
{
    pool->now = (struct counted){.done = snapshot->stats.jobs_done,
                                 .failed = snapshot->stats.jobs_failed,
                                 .rejected = snapshot->stats.jobs_rejected,
                                 .hits = snapshot->stats.cache_hits,
                                 .misses = snapshot->stats.cache_misses};
    for (uint32_t i = 0; i < snapshot->series_count; i++)
        count_series(&snapshot->series[i], &pool->now);
    pool->queued = snapshot->queued;
    pool->running = snapshot->running;
}

static void count_model(const struct snapshot *snapshot, const struct model_row *row, struct track *track)
{
    track->now = (struct counted){.done = 0};
    track->queued = row->queued;
    track->running = row->running;
    if (row->tally == SNAPSHOT_NONE || row->tally == 0)
        return; /* no job yet, or beyond the cap of rows: counted as `other` */
    PEN_ASSERT(row->tally < snapshot->tallies_count, "a model's counters are in the same snapshot");
    const struct model_tally *tally = &snapshot->tallies[row->tally];
    track->now.done = tally->computed + tally->coalesced + tally->cached;
    track->now.failed = metrics_sum(tally->failed);
    track->now.rejected = metrics_sum(tally->rejected);
    track->now.hits = tally->cached;
    track->now.misses = tally->cache_misses;
    for (uint32_t i = 1; i < snapshot->series_count; i++)
        if (snapshot->series[i].model_row == row->tally)
            count_series(&snapshot->series[i], &track->now);
}

/* ---- points ---- */

static uint32_t small(uint64_t value)
{
    return value < HISTORY_NONE ? (uint32_t)value : HISTORY_NONE - 1;
}

static uint32_t grown(uint64_t now, uint64_t before)
{
    return small(now > before ? now - before : 0);
}

static struct histogram between(const struct histogram *now, const struct histogram *before)
{
    struct histogram step = {.sum_us = now->sum_us - before->sum_us};
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        step.counts[i] = now->counts[i] - before->counts[i];
    return step;
}

static uint32_t mean_us(const struct track *track, enum stage stage)
{
    struct histogram step = between(&track->now.stages[stage], &track->before.stages[stage]);
    uint64_t count = histogram_count(&step);
    return count ? small(step.sum_us / count) : HISTORY_NONE;
}

static void track_point(struct track *track, uint64_t at_us, uint64_t span_us)
{
    const struct counted *now = &track->now, *before = &track->before;
    PEN_ASSERT(at_us > track->last_us, "a track's points follow each other in time");
    struct histogram total = between(&now->stages[STAGE_TOTAL], &before->stages[STAGE_TOTAL]);
    bool any = histogram_count(&total) > 0;
    track->points[at_us / HISTORY_STEP_US % HISTORY_STEPS] =
        (struct history_point){.at_us = at_us,
                               .span_ms = small(span_us / 1000),
                               .done = grown(now->done, before->done),
                               .failed = grown(now->failed, before->failed),
                               .rejected = grown(now->rejected, before->rejected),
                               .hits = grown(now->hits, before->hits),
                               .misses = grown(now->misses, before->misses),
                               .queued = small(track->queued),
                               .running = small(track->running),
                               .p50_us = any ? small(histogram_quantile_us(&total, 0.5)) : HISTORY_NONE,
                               .p95_us = any ? small(histogram_quantile_us(&total, 0.95)) : HISTORY_NONE,
                               .p99_us = any ? small(histogram_quantile_us(&total, 0.99)) : HISTORY_NONE,
                               .queue_us = mean_us(track, STAGE_QUEUE),
                               .transfer_us = mean_us(track, STAGE_TRANSFER),
                               .decode_us = mean_us(track, STAGE_DECODE),
                               .compute_us = mean_us(track, STAGE_COMPUTE)};
    track->before = track->now;
    track->last_us = at_us;
}

static void mark_here(struct history *history, const struct snapshot *snapshot)
{
    for (uint32_t i = 0; i < history->count; i++)
        history->models[i]->here = false;
    for (uint32_t i = 0; i < snapshot->models_count; i++) {
        struct track *track = track_find(history, snapshot->models[i].name, snapshot->models[i].version);
        if (track)
            track->here = true;
    }
}

void history_add(struct history *history, const struct snapshot *snapshot)
{
    uint64_t at_us = snapshot->taken_us, since_us = history->last_us ? history->last_us : snapshot->started_us;
    if (history->last_us && at_us / HISTORY_STEP_US <= history->last_us / HISTORY_STEP_US)
        return;
    mark_here(history, snapshot);
    count_pool(snapshot, history->pool);
    track_point(history->pool, at_us, at_us - since_us);
    for (uint32_t i = 0; i < snapshot->models_count; i++) {
        bool began;
        struct track *track = track_for(history, &snapshot->models[i], at_us, &began);
        if (!track)
            continue;
        count_model(snapshot, &snapshot->models[i], track);
        if (began)
            track->before = track->now;
        track_point(track, at_us, at_us - (track->last_us ? track->last_us : since_us));
    }
    history->last_us = at_us;
}

bool history_points(const struct history *history, const char *name, uint64_t version, uint64_t now_us,
                    struct history_point *points, size_t *ret_count)
{
    const struct track *track = name ? track_find(history, name, version) : history->pool;
    uint64_t hour_us = HISTORY_STEP_US * HISTORY_STEPS, first_us = now_us > hour_us ? now_us - hour_us : 1;
    uint64_t first = history->last_us / HISTORY_STEP_US + 1;
    *ret_count = 0;
    for (uint32_t i = 0; track && i < HISTORY_STEPS; i++) {
        const struct history_point *point = &track->points[(first + i) % HISTORY_STEPS];
        if (point->at_us >= first_us && point->at_us <= history->last_us)
            points[(*ret_count)++] = *point;
    }
    return track != NULL;
}

/* ---- JSON ---- */

static void put_time(struct writer *w, uint32_t us)
{
    if (us == HISTORY_NONE)
        writer_text(w, ",null");
    else
        writer_format(w, ",%" PRIu32, us);
}

void history_json(const struct history_point *points, size_t count, uint64_t now_us, struct writer *writer)
{
    writer_format(writer, "{\"step_s\":%u,\"now_us\":%" PRIu64, (unsigned)(HISTORY_STEP_US / 1000000), now_us);
    writer_text(writer, ",\"columns\":[\"at_us\",\"span_ms\",\"done\",\"failed\",\"rejected\",\"hits\",\"misses\","
                        "\"queued\",\"running\",\"p50_us\",\"p95_us\",\"p99_us\",\"queue_us\",\"transfer_us\","
                        "\"compute_us\",\"decode_us\"],\"points\":[");
    for (size_t i = 0; i < count; i++) {
        const struct history_point *p = &points[i];
        writer_format(writer, "%s[%" PRIu64 ",%u,%u,%u,%u,%u,%u,%u,%u", i ? "," : "", p->at_us, p->span_ms, p->done,
                      p->failed, p->rejected, p->hits, p->misses, p->queued, p->running);
        const uint32_t times[] = {p->p50_us,      p->p95_us,     p->p99_us,   p->queue_us,
                                  p->transfer_us, p->compute_us, p->decode_us};
        for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
            put_time(writer, times[k]);
        writer_text(writer, "]");
    }
    writer_text(writer, "]}\n");
}
