/*
 * metrics_lines.h - single lines of Prometheus' text form: `penstock_NAME{label="value"} 1`.
 *
 * A line is line_open, labels, line_close, a value; all lines of a name follow its line_family.
 * Threads: one-at-a-time.
 */
#ifndef METRICS_LINES_H
#define METRICS_LINES_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"
#include "stats.h"

void line_family(struct writer *w, const char *name, const char *type, const char *help);
void line_open(struct writer *w, const char *name, const char *suffix);
void line_close(struct writer *w);
void line_value(struct writer *w, uint64_t value); /* writes the value and ends the line */
/* A family of one line without labels. */
void line_single(struct writer *w, const char *name, const char *type, const char *help, uint64_t value);

void line_number(struct writer *w, const char *name, uint64_t value); /* a label with a number */
void line_model(struct writer *w, const char *name, uint64_t version);
void line_series(struct writer *w, const struct series_tally *series);
void lines_losses(struct writer *w, const struct stats *stats);
void lines_shadows(const struct snapshot *snapshot, struct writer *w);
void lines_errors(const struct snapshot *snapshot, struct writer *w);
void line_status(struct writer *w, const char *label, enum pen_status status);

#endif
