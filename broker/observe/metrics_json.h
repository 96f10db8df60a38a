/*
 * metrics_json.h - a snapshot as the JSON that the dashboard reads, on one line: histograms as cumulative counts, so that a reader who keeps the
 * last one knows every interval. What it is for: deploy/METRICS.md.
 * Threads: any.
 */
#ifndef METRICS_JSON_H
#define METRICS_JSON_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"

void metrics_json(const struct snapshot *snapshot, struct writer *writer);

#endif
