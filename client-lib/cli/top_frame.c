#include "top_frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "deadline.h"
#include "words.h"

enum pen_status top_view_take(pen_client *client, int64_t timeout_us, struct top_view *ret_view,
                              struct pen_error *reterr)
{
    struct top_view view = {NULL, NULL, NULL, 0};
    enum pen_status status = pen_client_stats(client, timeout_us, &view.stats, reterr);
    status = status == PEN_OK ? pen_client_models(client, timeout_us, &view.models, reterr) : status;
    status = status == PEN_OK ? pen_client_workers(client, timeout_us, &view.workers, reterr) : status;
    view.taken_us = clock_now_us();
    if (status != PEN_OK) {
        top_view_fini(&view);
        return status;
    }
    *ret_view = view;
    return PEN_OK;
}

void top_view_fini(struct top_view *view)
{
    pen_client_stats_free(view->stats);
    pen_client_models_free(view->models);
    pen_client_workers_free(view->workers);
    *view = (struct top_view){NULL, NULL, NULL, 0};
}

__attribute__((format(printf, 2, 0))) static void add(struct top_frame *frame, const char *format, va_list args)
{
    if (frame->count >= TOP_LINES_MAX) {
        return;
    }
    vsnprintf(frame->lines[frame->count], TOP_LINE_BYTES, format, args);
    /* Texts come from workers: nothing that moves the cursor may pass. */
    for (char *c = frame->lines[frame->count]; *c; c++) {
        *c = (unsigned char)*c < ' ' || *c == 0x7F ? '?' : *c;
    }
    frame->heading[frame->count++] = false;
}

__attribute__((format(printf, 2, 3))) static void add_row(struct top_frame *frame, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(frame, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void add_heading(struct top_frame *frame, const char *format, ...)
{
    va_list args;
    size_t before = frame->count;
    va_start(args, format);
    add(frame, format, args);
    va_end(args);
    if (frame->count > before) {
        frame->heading[before] = true;
    }
}

static double per_second(uint64_t now, uint64_t before, uint64_t us)
{
    return us && now >= before ? (double)(now - before) * 1e6 / (double)us : 0.0;
}

static void pool_lines(const struct pen_stats *s, const struct pen_stats *before, uint64_t us, struct top_frame *frame)
{
    char uptime[AMOUNT_BYTES], rss[AMOUNT_BYTES], cache[AMOUNT_BYTES];
    uint64_t looked = s->cache_hits + s->cache_misses;
    add_row(frame, "%s, up %s, %s, %" PRIu64 " %s, %" PRIu64 " %s%s", s->software, amount_us(s->uptime_us, uptime),
            amount_bytes(s->rss_bytes, rss), s->clients, words_plural(s->clients, "client", "clients"), s->workers,
            words_plural(s->workers, "worker", "workers"), s->draining ? ", DRAINING" : "");
    add_row(frame,
            "jobs   %" PRIu64 " queued, %" PRIu64 " running, %.1f/s; done %" PRIu64 ", failed %" PRIu64
            ", rejected %" PRIu64 ", expired %" PRIu64 ", cancelled %" PRIu64 ", requeued %" PRIu64 ", joined %" PRIu64,
            s->queued, s->running, before ? per_second(s->jobs_done, before->jobs_done, us) : 0.0, s->jobs_done,
            s->jobs_failed, s->jobs_rejected, s->jobs_expired, s->jobs_cancelled, s->jobs_requeued, s->jobs_coalesced);
    add_row(frame, "cache  %s, %s: %s in %" PRIu64 " %s, %" PRIu64 " %s of %" PRIu64 " (%.0f %%), %.1f hits/s",
            s->cache_kind, s->cache_state, amount_bytes(s->cache_bytes, cache), s->cache_entries,
            words_plural(s->cache_entries, "entry", "entries"), s->cache_hits,
            words_plural(s->cache_hits, "hit", "hits"), looked,
            looked ? 100.0 * (double)s->cache_hits / (double)looked : 0.0,
            before ? per_second(s->cache_hits, before->cache_hits, us) : 0.0);
}

static const struct pen_model *model_before(const struct top_view *before, const struct pen_model *m)
{
    for (size_t i = 0; before && before->models && i < before->models->count; i++) {
        const struct pen_model *b = before->models->models[i];
        if (b->version == m->version && strcmp(b->name, m->name) == 0) {
            return b;
        }
    }
    return NULL;
}

/* "xnnpack+reference" */
static void backends_text(const struct pen_model *m, char text[64])
{
    text[0] = '\0';
    for (size_t i = 0; i < m->offers_count; i++) {
        const char *name = m->offers[i]->backend;
        size_t used = strlen(text);
        if (!strstr(text, name) && used + strlen(name) + 2 < 64) {
            snprintf(text + used, 64 - used, "%s%s", used ? "+" : "", name);
        }
    }
}

/* ---- order ---- */

const char *top_sort_name(enum top_sort by)
{
    static const char *const names[TOP_SORTS] = {"name", "busy", "rate", "failed"};
    return names[by];
}

enum top_sort top_sort_parse(const char *name)
{
    unsigned by = TOP_BY_NAME;
    while (by + 1 < TOP_SORTS && strcmp(top_sort_name((enum top_sort)by), name) != 0) {
        by++;
    }
    return (enum top_sort)by;
}

struct row {
    const void *what; /* struct pen_model, struct pen_worker */
    const char *name;
    double value; /* what it is sorted by; larger ones first */
};

static int row_compare(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->value < y->value ? 1 : x->value > y->value ? -1 : strcmp(x->name, y->name);
}

/* Shown are those that one of the texts lets through. */
static bool passes(const struct top_order *order, const char *a, const char *b, const char *c)
{
    return !order->filter[0] || strcasestr(a, order->filter) || strcasestr(b, order->filter) ||
           strcasestr(c, order->filter);
}

static void rows_sort(struct row *rows, size_t count, const struct top_order *order)
{
    qsort(rows, count, sizeof *rows, row_compare);
    for (size_t i = 0; order->reverse && i < count / 2; i++) {
        struct row row = rows[i];
        rows[i] = rows[count - 1 - i];
        rows[count - 1 - i] = row;
    }
}

/* ---- tables ---- */

static double model_rate(const struct pen_model *m, const struct top_view *before, uint64_t us)
{
    const struct pen_model *b = model_before(before, m);
    return b ? per_second(m->jobs_done, b->jobs_done, us) : 0.0;
}

static void model_line(const struct pen_model *m, double rate, struct top_frame *frame)
{
    char name[64], backends[64];
    snprintf(name, sizeof name, "%.40s:%" PRIu64, m->name, m->version);
    backends_text(m, backends);
    add_row(frame, "%-28s %8" PRIu64 " %8" PRIu64 " %10" PRIu64 " %10.1f %8" PRIu64 " %8" PRIu64 "  %s", name,
            m->queued, m->running, m->jobs_done, rate, m->jobs_failed, m->cache_hits, backends);
}

static void models_lines(const struct top_view *view, const struct top_view *before, uint64_t us,
                         const struct top_order *order, struct top_frame *frame)
{
    char backends[64];
    size_t count = 0;
    struct row *rows = calloc(view->models->count + 1, sizeof *rows);
    add_heading(frame, "%-28s %8s %8s %10s %10s %8s %8s  %s", "MODEL", "QUEUED", "RUNNING", "DONE", "DONE/S", "FAILED",
                "CACHED", "BACKENDS");
    for (size_t i = 0; rows && i < view->models->count; i++) {
        const struct pen_model *m = view->models->models[i];
        backends_text(m, backends);
        if (!passes(order, m->name, backends, "")) {
            continue;
        }
        const double values[TOP_SORTS] = {0, (double)(m->queued + m->running), model_rate(m, before, us),
                                          (double)m->jobs_failed};
        rows[count++] = (struct row){.what = m, .name = m->name, .value = values[order->by]};
    }
    rows_sort(rows, count, order);
    for (size_t i = 0; i < count; i++) {
        model_line(rows[i].what, model_rate(rows[i].what, before, us), frame);
    }
    free(rows);
    if (!view->models->count) {
        add_row(frame, "none: start a worker with penstock-worker --models DIR");
    } else if (!count) {
        add_row(frame, "none of %zu passes the filter", view->models->count);
    }
}

static double worker_rate(const struct pen_worker *w, const struct top_view *before, uint64_t us)
{
    for (size_t i = 0; before && before->workers && i < before->workers->count; i++) {
        const struct pen_worker *b = before->workers->workers[i];
        if (strcmp(b->name, w->name) == 0) {
            return per_second(w->jobs_done, b->jobs_done, us);
        }
    }
    return 0.0;
}

static void worker_line(const struct pen_worker *w, double rate, struct top_frame *frame)
{
    char rss[AMOUNT_BYTES];
    add_row(frame, "%-24.40s %-10.20s %-9.12s %7u %6u %10" PRIu64 " %8.1f %7" PRIu64 " %11s  %.60s", w->name,
            w->backend, w->state, w->jobs_running, w->slots, w->jobs_done, rate, w->jobs_failed,
            amount_bytes(w->rss_bytes, rss), w->device);
}

static void workers_lines(const struct top_view *view, const struct top_view *before, uint64_t us,
                          const struct top_order *order, struct top_frame *frame)
{
    size_t count = 0;
    struct row *rows = calloc(view->workers->count + 1, sizeof *rows);
    add_heading(frame, "%-24s %-10s %-9s %7s %6s %10s %8s %7s %11s  %s", "WORKER", "BACKEND", "STATE", "RUNNING",
                "SLOTS", "DONE", "DONE/S", "FAILED", "MEMORY", "DEVICE");
    for (size_t i = 0; rows && i < view->workers->count; i++) {
        const struct pen_worker *w = view->workers->workers[i];
        if (!passes(order, w->name, w->backend, w->host)) {
            continue;
        }
        const double values[TOP_SORTS] = {0, w->jobs_running, worker_rate(w, before, us), (double)w->jobs_failed};
        rows[count++] = (struct row){.what = w, .name = w->name, .value = values[order->by]};
    }
    rows_sort(rows, count, order);
    for (size_t i = 0; i < count; i++) {
        worker_line(rows[i].what, worker_rate(rows[i].what, before, us), frame);
    }
    free(rows);
    if (!count) {
        add_row(frame, view->workers->count ? "none passes the filter" : "none");
    }
}

void top_frame_make(const struct top_view *view, const struct top_view *before, const char *broker,
                    const struct top_order *order, struct top_frame *frame)
{
    const struct pen_stats *old = before ? before->stats : NULL;
    uint64_t us = old ? view->taken_us - before->taken_us : 0;
    frame->count = 0;
    add_heading(frame, "penstock top  %s  by %s%s%s%s", broker, top_sort_name(order->by),
                order->reverse ? ", turned round" : "", order->filter[0] ? "  filter: " : "", order->filter);
    pool_lines(view->stats, old, us, frame);
    add_row(frame, "%s", "");
    models_lines(view, before, us, order, frame);
    add_row(frame, "%s", "");
    workers_lines(view, before, us, order, frame);
}
