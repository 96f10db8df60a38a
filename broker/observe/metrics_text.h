/*
 * metrics_text.h - a snapshot in Prometheus' text form, version 0.0.4. Names and labels: deploy/METRICS.md.
 * Threads: any.
 */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"

void metrics_text(const struct snapshot *snapshot, struct writer *writer);
/* The part of it that has a row per series, worker or tenant. */
void metrics_text_rows(const struct snapshot *snapshot, struct writer *writer);

#endif
