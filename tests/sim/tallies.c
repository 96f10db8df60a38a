/* What the broker has counted, each sum against another one that is written elsewhere: stats.h, metrics.h, usage.h. */
#include "sim.h"

#include <inttypes.h>

/* All rows of the metrics together. */
struct tally_sums {
    uint64_t admitted, ended, good, cached, hits, misses, requeued, rejected, expired;
    uint64_t hedges, batch_jobs, computed, coalesced, timed;
};

static void expect(struct sim *sim, bool right, const char *what, uint64_t one, uint64_t other)
{
    if (!right && !sim->failure[0])
        sim_fail(sim, "%s: %" PRIu64 " and %" PRIu64, what, one, other);
}

static void equal(struct sim *sim, const char *what, uint64_t one, uint64_t other)
{
    expect(sim, one == other, what, one, other);
}

static void at_most(struct sim *sim, const char *what, uint64_t one, uint64_t other)
{
    expect(sim, one <= other, what, one, other);
}

static uint64_t sum(const uint64_t *counts, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += counts[i];
    return all;
}

static void add_model(struct tally_sums *sums, const struct model_tally *m)
{
    uint64_t good = m->computed + m->coalesced + m->cached;
    sums->admitted += m->admitted;
    sums->ended += good + m->cancelled + metrics_sum(m->failed) + metrics_sum(m->rejected);
    sums->good += good;
    sums->cached += m->cached;
    sums->computed += m->computed;
    sums->coalesced += m->coalesced;
    sums->hits += m->cache_hits;
    sums->misses += m->cache_misses;
    sums->requeued += m->requeued;
    sums->rejected += metrics_sum(m->rejected);
    sums->expired += m->failed[PEN_ERR_DEADLINE];
}

static void check_series(struct sim *sim, const struct series_tally *s, struct tally_sums *sums)
{
    uint64_t batches = sum(s->batches, METRICS_BATCH_SIZES), runs = sum(s->runs, METRICS_BATCH_SIZES);
    equal(sim, "batches by size, and by why they closed", batches, sum(s->closes, CLOSE_COUNT));
    at_most(sim, "batches and their jobs", batches, s->batch_jobs);
    equal(sim, "runs by size, and forecasts that were compared with what they took", runs, histogram_count(&s->error));
    at_most(sim, "runs and their jobs", runs, s->run_jobs);
    equal(sim, "jobs of runs, and those that were measured", s->run_jobs, s->measured);
    equal(sim, "times in queues and in all", histogram_count(&s->queue), histogram_count(&s->total));
    equal(sim, "times of transfers and in all", histogram_count(&s->transfer), histogram_count(&s->total));
    equal(sim, "times of execution and in all", histogram_count(&s->compute), histogram_count(&s->total));
    at_most(sim, "times of decoding and in all", histogram_count(&s->decode), histogram_count(&s->total));
    at_most(sim, "times in queues together, and in all", s->queue.sum_us, s->total.sum_us);
    at_most(sim, "slot time that was seen, and that was spent", s->busy_seen_us, s->busy_us);
    sums->hedges += s->closes[CLOSE_HEDGE - CLOSE_FIRST];
    sums->batch_jobs += s->batch_jobs;
    sums->timed += histogram_count(&s->total);
}

/* The rows of one ring that are in use. */
static void check_traces(struct sim *sim, const struct job_traces *traces, bool errors)
{
    const struct broker *broker = &sim->side->broker;
    uint64_t count = traces->count < METRICS_TRACES ? traces->count : METRICS_TRACES;
    for (uint64_t i = 0; i < count; i++) {
        const struct job_trace *t = &traces->rows[i];
        bool failed = t->status != PEN_OK && t->how != FINISH_CANCELLED;
        expect(sim, failed == errors, "a trace is not in the list of its end", t->status, t->how);
        at_most(sim, "a trace's end and now", t->ended_us, broker->now_us);
        at_most(sim, "a trace's time in the queue and in all", t->queue_us, t->total_us);
        expect(sim, t->batch > 0 || t->worker[0] == '\0', "a job that ran has a batch", t->batch, t->attempts);
        at_most(sim, "a trace's time of asking the cache and in all", t->lookup_us, t->total_us);
        at_most(sim, "a trace's row of models", t->model_row + 1, broker->metrics->models_count);
        at_most(sim, "a trace's row of series", t->series_row + 1, broker->metrics->series_count);
    }
}

/* The floor is the time of the fastest of the slow ones. */
static void check_slow(struct sim *sim)
{
    const struct metrics *metrics = sim->side->broker.metrics;
    uint64_t least_us = UINT64_MAX;
    for (unsigned i = 0; i < METRICS_TRACES; i++)
        least_us = metrics->slow.rows[i].total_us < least_us ? metrics->slow.rows[i].total_us : least_us;
    equal(sim, "the fastest of the slow jobs, and the floor", least_us, metrics->slow_floor_us);
}

/* Steps of an ensemble, and copies for another version, are counted by their models alone. */
static bool has_parts(const struct sim *sim)
{
    return sim->has.steps || (sim->has.orders && sim->has.versions);
}

static void check_usage(struct sim *sim, const struct tally_sums *sums)
{
    const struct broker *broker = &sim->side->broker;
    const struct usage *usage = broker->usage;
    struct usage_counts all[METRICS_TENANTS_MAX + 1] = {{0}};
    for (uint32_t i = 0; i < usage->accounts_count; i++)
        usage_add(&all[usage->accounts[i].tenant], &usage->accounts[i].hour);
    for (uint32_t i = 0; i < usage->rows_count; i++)
        usage_add(&all[usage->accounts[usage->rows[i].account].tenant], &usage->rows[i].counts);
    struct usage_counts whole = {0};
    for (uint32_t i = 0; i < broker->metrics->tenants_count; i++) {
        const struct tenant_tally *t = &broker->metrics->tenants[i];
        equal(sim, "jobs of a tenant's bill by their ends", all[i].jobs, all[i].ok + all[i].failed + all[i].cancelled);
        at_most(sim, "jobs of a bill by how they were answered", all[i].computed + all[i].cached + all[i].coalesced,
                all[i].ok);
        equal(sim, "jobs of a bill and of the tenant", all[i].jobs, t->jobs);
        equal(sim, "bytes of a bill and to the tenant", all[i].bytes_out, t->bytes_out);
        at_most(sim, "bytes of a bill and from the tenant", all[i].bytes_in, t->bytes_in);
        equal(sim, "device time of a bill and of the tenant", all[i].device_us, t->compute_us);
        usage_add(&whole, &all[i]);
    }
    at_most(sim, "computed jobs of bills and of models", whole.computed, sums->computed);
    at_most(sim, "coalesced jobs of bills and of models", whole.coalesced, sums->coalesced);
    at_most(sim, "cached jobs of bills and of models", whole.cached, sums->cached);
    if (has_parts(sim))
        return;
    equal(sim, "good jobs of bills by how they were answered", whole.computed + whole.cached + whole.coalesced,
          whole.ok);
    equal(sim, "computed jobs of bills and of models without parts", whole.computed, sums->computed);
    equal(sim, "cached jobs of bills and of models without parts", whole.cached, sums->cached);
}

/* Jobs of clients: not the steps that an ensemble is made of. */
static uint64_t live_wholes(const struct broker *broker)
{
    const struct session *session;
    const struct job *job;
    uint64_t count = 0;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        TAILQ_FOREACH(job, &session->live, in_session)
        count += job->owner != OWNER_STEP;
    }
    return count;
}

static void check_stats(struct sim *sim, const struct tally_sums *sums)
{
    const struct broker *broker = &sim->side->broker;
    const struct stats *s = &broker->stats;
    uint64_t ended = s->jobs_done + s->jobs_failed + s->jobs_cancelled + s->jobs_handed;
    at_most(sim, "jobs admitted, and those that ended or live", s->jobs_admitted, ended + live_wholes(broker));
    equal(sim, "workers that were lost, and their kinds of loss", s->workers_lost, sum(s->losses, LOSS_COUNT));
    at_most(sim, "hedges that won, and that were sent", s->hedges_won, s->jobs_hedged);
    equal(sim, "hedges, and batches that closed for one", s->jobs_hedged, sums->hedges);
    at_most(sim, "jobs that expired, and that failed", s->jobs_expired, s->jobs_failed);
    at_most(sim, "hits before the payload, and hits", s->early_hits, s->cache_hits);
    equal(sim, "jobs that were rejected, and those of all models", s->jobs_rejected, sums->rejected);
    equal(sim, "misses of the cache, and those of all models", s->cache_misses, sums->misses);
    equal(sim, "jobs queued again, and those of all models", s->jobs_requeued, sums->requeued);
    equal(sim, "hits of all models, and jobs answered by them", sums->hits, sums->cached);
    at_most(sim, "hits, and those of all models", s->cache_hits, sums->hits);
    at_most(sim, "jobs admitted, and those of all models", s->jobs_admitted, sums->admitted);
    at_most(sim, "jobs done, and those of all models", s->jobs_done, sums->good);
    at_most(sim, "jobs that expired, and those of all models", s->jobs_expired, sums->expired);
    if (has_parts(sim))
        return;
    equal(sim, "jobs admitted, and those of all models without parts", s->jobs_admitted, sums->admitted);
    equal(sim, "jobs done, and those of all models without parts", s->jobs_done, sums->good);
    equal(sim, "jobs that expired, and those of all models without parts", s->jobs_expired, sums->expired);
    at_most(sim, "jobs whose times are known, and those that were computed or coalesced", sums->timed,
            sums->computed + sums->coalesced);
    at_most(sim, "jobs sent, and those of all batches, also of workers that brought theirs along", s->jobs_dispatched,
            sums->batch_jobs);
}

void tallies_check(struct sim *sim)
{
    const struct metrics *metrics = sim->side->broker.metrics;
    struct tally_sums sums = {.ended = 0};
    for (uint32_t i = 0; i < metrics->models_count; i++)
        add_model(&sums, &metrics->models[i]);
    for (uint32_t i = 0; i < metrics->series_count; i++)
        check_series(sim, &metrics->series[i], &sums);
    equal(sim, "jobs that ended by model, and their traces", sums.ended, metrics->recent.count + metrics->errors.count);
    check_traces(sim, &metrics->recent, false);
    check_traces(sim, &metrics->errors, true);
    check_slow(sim);
    check_usage(sim, &sums);
    check_stats(sim, &sums);
}
