/*
 * trace_write.h - traces as text: ours (JSON), Chrome's and Perfetto's, OpenTelemetry's (OTLP/HTTP, JSON).
 * Threads: any (a writer is one-at-a-time).
 */
#ifndef TRACE_WRITE_H
#define TRACE_WRITE_H

#include "metrics_snapshot.h"
#include "metrics_writer.h"
#include "trace_spans.h"

enum trace_form { TRACE_JSON, TRACE_CHROME, TRACE_OTLP, TRACE_FORMS };
/* "json", "chrome", "otlp"; false for another name. */
bool trace_form_parse(const char *name, enum trace_form *ret_form);

/* {"traces":[...]}, a Chrome trace, or an ExportTraceServiceRequest. */
void trace_write(enum trace_form form, const struct trace_view *views, size_t count, struct writer *writer);

/* The view of one trace in a snapshot: model, series and clock come from the snapshot. */
struct trace_view trace_view_in(const struct snapshot *snapshot, const struct job_trace *trace);

/*
 * question: a job's id, or recent, errors, slow, kept; then, behind a blank, dot or slash, a form (json without one). INVALID, NOT_FOUND with a
 * sentence; NO_MEMORY.
 */
enum pen_status trace_answer(const struct snapshot *snapshot, const char *question, struct writer *writer,
                             struct pen_error *reterr);

#endif
