/* metrics_text_losses.c - what became of lost workers, suspects and hedges, as Prometheus' text. */
#include "metrics_lines.h"

void lines_losses(struct writer *w, const struct stats *stats)
{
    line_family(w, "worker_losses_total", "counter", "Lost workers by what became of them.");
    for (int i = 0; i < LOSS_COUNT; i++)
        writer_format(w, "penstock_worker_losses_total{reason=\"%s\"} %llu\n", loss_name((enum loss)i),
                      (unsigned long long)stats->losses[i]);
    line_single(w, "workers_slow_total", "counter", "Times that a run lasted far longer than expected.",
                stats->workers_slow);
    line_single(w, "jobs_quarantined_total", "counter", "Jobs that were alone on a worker when it died once too often.",
                stats->quarantined);
    line_single(w, "quarantine_refused_total", "counter", "Jobs turned away because an equal one is in quarantine.",
                stats->quarantine_refused);
    line_single(w, "hedges_total", "counter", "Second runs of late jobs on idle workers (--hedge).",
                stats->jobs_hedged);
    line_single(w, "hedges_won_total", "counter", "Second runs that answered first.", stats->hedges_won);
}
