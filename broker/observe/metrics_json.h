/*
 * metrics_json.h - a snapshot as the JSON that the dashboard reads, on one line: histograms are cumulative counts, so a
 * reader that keeps the last snapshot can compute any interval. Its use is described in deploy/METRICS.md.
 * Threads: any.
 */
#ifndef METRICS_JSON_H
#define METRICS_JSON_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"

void metrics_json(const struct snapshot *snapshot, struct writer *writer);

#endif
