#include "trace_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ours ---- */

static void put_hex(struct writer *w, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        writer_format(w, "%02x", bytes[i]);
}

static void put_string(struct writer *w, const char *name, const char *value)
{
    writer_format(w, ",\"%s\":", name);
    writer_string(w, value);
}

static void put_json(const struct trace_view *view, struct writer *w)
{
    struct span spans[SPANS_MAX];
    char id[JOB_ID_TEXT_BYTES];
    uint8_t trace[16];
    const struct job_trace *job = view->trace;
    size_t count = trace_spans(job, spans);
    trace_id(job, trace);
    writer_format(w, "{\"job\":\"%s\",\"trace_id\":\"", job_id_text(job->id, id));
    put_hex(w, trace, sizeof trace);
    writer_format(w, "\",\"admitted_unix_us\":%" PRId64 ",\"total_us\":%" PRIu64, trace_admitted_unix_us(view),
                  job->total_us);
    put_string(w, "model", view->model);
    writer_format(w, ",\"version\":%" PRIu64, view->version);
    put_string(w, "backend", view->backend);
    put_string(w, "precision", view->precision);
    put_string(w, "how", finish_name(job->how));
    put_string(w, "status", pen_status_name(job->status));
    put_string(w, "worker", job->worker);
    put_string(w, "reason", job->reason);
    put_string(w, "error", job->error);
    writer_format(w, ",\"attempts\":%u,\"batch\":%u,\"spans\":[", job->attempts, job->batch);
    for (size_t i = 0; i < count; i++) {
        writer_format(w, "%s{\"parent\":%d,\"side\":\"%s\",\"start_us\":%" PRId64 ",\"us\":%" PRIu64, i ? "," : "",
                      spans[i].parent == SPAN_NONE ? -1 : (int)spans[i].parent, span_side_name(spans[i].side),
                      spans[i].start_us, spans[i].us);
        put_string(w, "name", spans[i].name);
        put_string(w, "detail", spans[i].detail);
        writer_text(w, "}");
    }
    writer_text(w, "]}");
}

/* ---- Chrome, Perfetto: one row of the picture per job, complete events ("X"), microseconds since 1970 ---- */

static void put_chrome(const struct trace_view *view, size_t row, struct writer *w)
{
    struct span spans[SPANS_MAX];
    char id[JOB_ID_TEXT_BYTES];
    int64_t base_us = trace_admitted_unix_us(view);
    size_t count = trace_spans(view->trace, spans);
    writer_format(w, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%zu,\"args\":{\"name\":\"%s\"", row,
                  job_id_text(view->trace->id, id));
    put_string(w, "model", view->model);
    writer_text(w, "}}");
    for (size_t i = 0; i < count; i++) {
        writer_format(w, ",{\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"ts\":%" PRId64 ",\"dur\":%" PRIu64 ",\"cat\":\"%s\"",
                      row, base_us + spans[i].start_us, spans[i].us, span_side_name(spans[i].side));
        put_string(w, "name", spans[i].name);
        writer_format(w, ",\"args\":{\"job\":\"%s\"", id);
        if (*spans[i].detail)
            put_string(w, "detail", spans[i].detail);
        if (i == 0)
            put_string(w, "status", pen_status_name(view->trace->status));
        writer_text(w, "}}");
    }
}

/* ---- OpenTelemetry ---- */

static void put_attribute(struct writer *w, bool first, const char *name, const char *value)
{
    writer_format(w, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":", first ? "" : ",", name);
    writer_string(w, value);
    writer_text(w, "}}");
}

static void put_count(struct writer *w, const char *name, uint64_t value)
{
    writer_format(w, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRIu64 "\"}}", name, value);
}

static void put_job_attributes(const struct trace_view *view, struct writer *w)
{
    put_attribute(w, false, "penstock.model", view->model);
    put_count(w, "penstock.model_version", view->version);
    put_attribute(w, false, "penstock.backend", view->backend);
    put_attribute(w, false, "penstock.precision", view->precision);
    put_attribute(w, false, "penstock.outcome", finish_name(view->trace->how));
    put_attribute(w, false, "penstock.status", pen_status_name(view->trace->status));
    put_count(w, "penstock.batch", view->trace->batch);
    put_count(w, "penstock.attempts", view->trace->attempts);
}

static void put_parent(const struct trace_view *view, const struct span *span, struct writer *w)
{
    uint8_t id[8];
    const struct trace_context *context = &view->trace->note.context;
    if (span->parent == SPAN_NONE && !context->valid)
        return;
    span_id(view->trace->id, span->parent, id);
    writer_text(w, ",\"parentSpanId\":\"");
    put_hex(w, span->parent == SPAN_NONE ? context->parent_id : id, 8);
    writer_text(w, "\"");
}

/* kind 1 internal, 2 server, 3 client; status code 2 error. */
static void put_otlp_span(const struct trace_view *view, const struct span *span, uint32_t index, struct writer *w)
{
    uint8_t trace[16], id[8];
    char job[JOB_ID_TEXT_BYTES];
    int64_t start_us = trace_admitted_unix_us(view) + span->start_us;
    trace_id(view->trace, trace);
    span_id(view->trace->id, index, id);
    writer_text(w, "{\"traceId\":\"");
    put_hex(w, trace, sizeof trace);
    writer_text(w, "\",\"spanId\":\"");
    put_hex(w, id, sizeof id);
    writer_text(w, "\"");
    put_parent(view, span, w);
    put_string(w, "name", span->name);
    writer_format(w, ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64 "000\",\"endTimeUnixNano\":\"%" PRId64 "000\"",
                  index == 0 ? 2 : 1, start_us, start_us + (int64_t)span->us);
    writer_text(w, ",\"attributes\":[");
    put_attribute(w, true, "penstock.job", job_id_text(view->trace->id, job));
    if (*span->detail)
        put_attribute(w, false, "penstock.detail", span->detail);
    if (index == 0)
        put_job_attributes(view, w);
    writer_text(w, "]");
    if (index == 0 && view->trace->status != PEN_OK && view->trace->how != FINISH_CANCELLED) {
        writer_text(w, ",\"status\":{\"code\":2");
        put_string(w, "message", view->trace->error);
        writer_text(w, "}");
    }
    writer_text(w, "}");
}

static void put_resource(enum span_side side, const struct trace_view *views, size_t count, bool first,
                         struct writer *w)
{
    struct span spans[SPANS_MAX];
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        size_t spans_count = trace_spans(views[i].trace, spans);
        for (uint32_t k = 0; k < spans_count; k++) {
            if (spans[k].side != side)
                continue;
            if (!any)
                writer_format(w,
                              "%s{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
                              "\"penstock-%s\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"penstock\"},\"spans\":[",
                              first ? "" : ",", span_side_name(side));
            else
                writer_text(w, ",");
            any = true;
            put_otlp_span(&views[i], &spans[k], k, w);
        }
    }
    if (any)
        writer_text(w, "]}]}");
}

static void put_otlp(const struct trace_view *views, size_t count, struct writer *w)
{
    writer_text(w, "{\"resourceSpans\":[");
    size_t empty = w->used;
    for (enum span_side side = SPAN_CLIENT; side <= SPAN_WORKER; side++)
        put_resource(side, views, count, w->used == empty, w);
    writer_text(w, "]}");
}

/* ---- the table ---- */

bool trace_form_parse(const char *name, enum trace_form *ret_form)
{
    static const char *const names[TRACE_FORMS] = {"json", "chrome", "otlp"};
    for (unsigned i = 0; i < TRACE_FORMS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_form = (enum trace_form)i;
            return true;
        }
    }
    return false;
}

void trace_write(enum trace_form form, const struct trace_view *views, size_t count, struct writer *writer)
{
    if (form == TRACE_OTLP) {
        put_otlp(views, count, writer);
        return;
    }
    writer_text(writer, form == TRACE_JSON ? "{\"traces\":[" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            writer_text(writer, ",");
        if (form == TRACE_JSON)
            put_json(&views[i], writer);
        else
            put_chrome(&views[i], i + 1, writer);
    }
    writer_text(writer, "]}");
}

struct trace_view trace_view_in(const struct snapshot *snapshot, const struct job_trace *trace)
{
    const struct model_tally *model = &snapshot->tallies[trace->model_row];
    const struct series_tally *series = &snapshot->series[trace->series_row];
    return (struct trace_view){.trace = trace,
                               .model = model->name,
                               .version = model->version,
                               .backend = trace->series_row ? series->backend : "",
                               .precision = trace->series_row ? precision_name(series->precision) : "",
                               .unix_offset_us = snapshot->unix_offset_us};
}

/* ---- what a question names ---- */

static const struct job_trace *rows_named(const struct snapshot *snapshot, const char *name, size_t bytes,
                                          uint32_t *ret_count)
{
    const struct {
        const char *name;
        const struct job_trace *rows;
        uint32_t count;
    } lists[] = {{"recent", snapshot->recent.rows, METRICS_TRACES},
                 {"errors", snapshot->errors.rows, METRICS_TRACES},
                 {"slow", snapshot->slow.rows, METRICS_TRACES},
                 {"kept", snapshot->kept.rows, snapshot->kept.room}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strlen(lists[i].name) == bytes && memcmp(lists[i].name, name, bytes) == 0) {
            *ret_count = lists[i].count;
            return lists[i].rows;
        }
    }
    return NULL;
}

static enum pen_status write_rows(const struct snapshot *snapshot, enum trace_form form, const struct job_trace *rows,
                                  uint32_t count, struct writer *writer)
{
    size_t used = 0;
    struct trace_view *views = calloc(count + 1u, sizeof *views);
    if (!views)
        return PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].id.client || rows[i].id.sequence)
            views[used++] = trace_view_in(snapshot, &rows[i]);
    }
    trace_write(form, views, used, writer);
    free(views);
    return writer->failed ? PEN_ERR_NO_MEMORY : PEN_OK;
}

enum pen_status trace_answer(const struct snapshot *snapshot, const char *question, struct writer *writer,
                             struct pen_error *reterr)
{
    size_t bytes = strcspn(question, " ./");
    const char *form_name = question[bytes] ? question + bytes + 1 : "json";
    enum trace_form form;
    struct job_id id;
    char text[JOB_ID_TEXT_BYTES];
    uint32_t count = 1;
    if (!trace_form_parse(form_name, &form))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the form '%.32s' is unknown; there are json, chrome, otlp",
                             form_name);
    const struct job_trace *rows = rows_named(snapshot, question, bytes, &count);
    if (!rows) {
        snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : sizeof text - 1), question);
        if (bytes >= sizeof text || job_id_parse(text, &id) != 0)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "'%s' is neither a job id nor one of recent, errors, slow, kept", text);
        rows = snapshot_life(snapshot, id);
    }
    if (!rows)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "no trace of job %s: it is under way, or was neither sampled, slow, failed nor among the "
                             "last; `penstock submit --trace` keeps one",
                             text);
    return write_rows(snapshot, form, rows, count, writer);
}
