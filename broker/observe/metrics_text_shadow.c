/* metrics_text_shadow.c - shadow traffic as Prometheus' text. */
#include "metrics_lines.h"

#include <math.h>

static void put(const struct shadow_row *row, struct writer *w, const char *name, const char *outcome, uint64_t value)
{
    line_open(w, name, "");
    line_model(w, row->model, row->version);
    if (outcome)
        writer_label(w, "outcome", outcome);
    line_close(w);
    line_value(w, value);
}

static void put_jobs(const struct shadow_row *row, struct writer *w)
{
    const struct shadow_figures *f = &row->figures;
    put(row, w, "shadow_jobs_total", "compared", f->compared);
    put(row, w, "shadow_jobs_total", "failed", f->failed);
    put(row, w, "shadow_jobs_total", "skipped", f->skipped);
}

static void put_real(const struct shadow_row *row, struct writer *w, const char *name, double value)
{
    line_open(w, name, "");
    line_model(w, row->model, row->version);
    line_close(w);
    if (isfinite(value))
        writer_format(w, "%.6g\n", value);
    else
        writer_text(w, "+Inf\n");
}

static void put_seconds(const struct shadow_row *row, struct writer *w, const char *which, uint64_t us)
{
    line_open(w, "shadow_seconds_total", "");
    line_model(w, row->model, row->version);
    writer_label(w, "job", which);
    line_close(w);
    writer_seconds(w, us);
    writer_text(w, "\n");
}

void lines_shadows(const struct snapshot *s, struct writer *w)
{
    line_family(w, "shadow_jobs_total", "counter", "Jobs copied to another version, by what became of the pair.");
    for (uint32_t i = 0; i < s->shadows_count; i++)
        put_jobs(&s->shadows[i], w);
    line_family(w, "shadow_rows_total", "counter", "Compared rows with classes, by whether the first class agrees.");
    for (uint32_t i = 0; i < s->shadows_count; i++) {
        put(&s->shadows[i], w, "shadow_rows_total", "same", s->shadows[i].figures.same);
        put(&s->shadows[i], w, "shadow_rows_total", "other", s->shadows[i].figures.rows - s->shadows[i].figures.same);
    }
    line_family(w, "shadow_unlike_total", "counter", "Pairs of answers whose outputs have other names, types or dims.");
    for (uint32_t i = 0; i < s->shadows_count; i++)
        put(&s->shadows[i], w, "shadow_unlike_total", NULL, s->shadows[i].figures.unlike);
    line_family(w, "shadow_error_max_ratio", "gauge", "Largest relative error between compared answers.");
    for (uint32_t i = 0; i < s->shadows_count; i++)
        put_real(&s->shadows[i], w, "shadow_error_max_ratio", s->shadows[i].figures.largest);
    line_family(w, "shadow_seconds_total", "counter", "Time of compared jobs, of originals and of copies.");
    for (uint32_t i = 0; i < s->shadows_count; i++) {
        put_seconds(&s->shadows[i], w, "original", s->shadows[i].figures.original_us);
        put_seconds(&s->shadows[i], w, "copy", s->shadows[i].figures.shadow_us);
    }
    line_family(w, "labels_went_back_total", "counter", "Labels that left the version by themselves.");
    for (uint32_t i = 0; i < s->shadows_count; i++)
        put(&s->shadows[i], w, "labels_went_back_total", NULL, s->shadows[i].went_back);
}
