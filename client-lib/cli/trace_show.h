/*
 * trace_show.h - a job's life for people: who had it from when to when, with a bar for each span.
 *
 * Threads: owner.
 */
#ifndef TRACE_SHOW_H
#define TRACE_SHOW_H

#include <stdio.h>

#include <cjson/cJSON.h>

/* One element of {"traces": [...]}; what is missing in it is left out. NULL is fine. */
void trace_show(const cJSON *trace, FILE *out);
/* One line: when, id, model, outcome, time. */
void trace_show_line(const cJSON *trace, FILE *out);

#endif
