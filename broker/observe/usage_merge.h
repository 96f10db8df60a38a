/*
 * usage_merge.h - the lines of a usage file (--usage-dir): one is written, and those of one account become one.
 *
 * A line is a JSON object. First comes what it is of (hour, broker, tenant, model, version), then the counts in the
 * order of USAGE_COUNTS. Lines of the same beginning may be added up.
 * Threads: any (pure functions).
 */
#ifndef USAGE_MERGE_H
#define USAGE_MERGE_H

#include "metrics_writer.h"
#include "usage.h"

struct usage_of {
    uint32_t hour; /* since 1970 */
    uint64_t broker;
    const char *tenant, *model;
    uint64_t version;
};

void usage_line(struct writer *writer, const struct usage_of *of, const struct usage_counts *counts);

/*
 * Adds up the lines of `text`, which is changed while it is read. A line that is not as above stays as it is. The
 * result is sorted. writer->failed: no memory.
 */
void usage_merge(char *text, size_t bytes, struct writer *writer);

#endif
