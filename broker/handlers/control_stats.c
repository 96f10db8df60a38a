#include "control_internal.h"

#include "version.h"

static void fill_load(const struct broker *broker, Penstock__Stats *stats)
{
    const struct model *model;
    const struct session *session;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        stats->queued += model->queue.waiting;
        stats->running += model->running;
    }
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    stats->clients += session->connected;
    stats->workers = broker->fleet.count;
    stats->bytes_in = broker->clients->bytes_in + broker->workers->bytes_in;
    stats->bytes_out = broker->clients->bytes_out + broker->workers->bytes_out;
    stats->replies_kept = broker->sessions.kept_count;
}

static void fill_cache(struct broker *broker, struct control_answer *answer, Penstock__Stats *stats)
{
    struct cache_report report;
    cache_report(broker->cache, &report);
    stats->cache_hits = broker->stats.cache_hits;
    stats->cache_misses = broker->stats.cache_misses;
    stats->cache_bytes = report.bytes;
    stats->cache_entries = report.entries;
    stats->cache_kind = control_text(answer, report.kind);
    stats->cache_state = control_text(answer, report.state);
}

void control_stats(struct broker *broker, struct control_answer *answer, const char *argument)
{
    (void)argument;
    const struct stats *own = &broker->stats;
    Penstock__Stats *stats = control_room(answer, sizeof *stats);
    if (!stats)
        return;
    penstock__stats__init(stats);
    answer->reply.stats = stats;
    stats->uptime_us = broker->now_us - broker->started_us;
    stats->jobs_admitted = own->jobs_admitted;
    stats->jobs_done = own->jobs_done;
    stats->jobs_failed = own->jobs_failed;
    stats->jobs_rejected = own->jobs_rejected;
    stats->jobs_expired = own->jobs_expired;
    stats->jobs_cancelled = own->jobs_cancelled;
    stats->jobs_requeued = own->jobs_requeued;
    stats->jobs_coalesced = own->jobs_coalesced;
    stats->results_duplicate = own->results_duplicate;
    stats->workers_lost = own->workers_lost;
    stats->workers_lost_closed = own->losses[LOSS_CLOSED];
    stats->workers_lost_frozen = own->losses[LOSS_FROZEN];
    stats->workers_lost_cut = own->losses[LOSS_CUT];
    stats->workers_slow = own->workers_slow;
    stats->jobs_hedged = own->jobs_hedged;
    stats->hedges_won = own->hedges_won;
    stats->quarantined = broker->quarantine->count;
    stats->quarantine_refused = own->quarantine_refused;
    stats->rss_bytes = stats_rss_bytes();
    stats->draining = broker->draining;
    stats->software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    fill_load(broker, stats);
    fill_cache(broker, answer, stats);
}
