/*
 * preview_write.h - the list of the last pictures (metrics/preview.h) as JSON, for the dashboard.
 * Threads: any.
 */
#ifndef PREVIEW_WRITE_H
#define PREVIEW_WRITE_H

#include "metrics_writer.h"
#include "preview.h"

/* {"previews": [{"id", "model", "version", "job", "ended_us", "type", "bytes"}, ...]}, the newest first. previews: NULL
   = they are off, and the list is empty. */
void preview_write(struct previews *previews, struct writer *writer);

#endif
