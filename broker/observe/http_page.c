#include "http_page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dashboard.h"
#include "metrics_json.h"
#include "metrics_text.h"
#include "preview_write.h"
#include "trace_write.h"

#define AGE_US     100000u  /* a snapshot may be so old: a flood of requests costs the loop ten a second */
#define TIMEOUT_US 1000000u /* longer than the loop's longest sleep */

static const char type_json[] = "application/json";
static const char type_text[] = "text/plain; charset=utf-8";

__attribute__((format(printf, 3, 4))) static void say(struct page *page, unsigned status, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    page->status = status;
    writer_text(&page->body, line);
    writer_text(&page->body, "\n");
}

static struct snapshot *ask(struct post *post, struct page *page)
{
    struct snapshot *snapshot = NULL;
    enum pen_status status = post_get(post, AGE_US, TIMEOUT_US, &snapshot);
    if (status == PEN_OK)
        return snapshot;
    page->type = type_text;
    if (status == PEN_ERR_CANCELLED)
        say(page, 503, "the broker is ending");
    else
        say(page, 503, "the broker's loop did not answer within %u ms; its last beat was %" PRIu64 " ms ago",
            TIMEOUT_US / 1000, post_silence_us(post) / 1000);
    return NULL;
}

/* ---- pages ---- */

static void on_metrics(const struct page_source *source, const char *rest, struct page *page)
{
    struct snapshot *snapshot = ask(source->post, page);
    (void)rest;
    if (!snapshot)
        return;
    page->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_text(snapshot, &page->body);
    post_release(source->post, snapshot);
}

static void on_state(const struct page_source *source, const char *rest, struct page *page)
{
    struct snapshot *snapshot = ask(source->post, page);
    (void)rest;
    if (!snapshot)
        return;
    page->type = type_json;
    metrics_json(snapshot, &page->body);
    post_release(source->post, snapshot);
}

static void on_live(const struct page_source *source, const char *rest, struct page *page)
{
    uint64_t silence_us = post_silence_us(source->post);
    (void)rest;
    page->type = type_json;
    if (silence_us < POST_WEDGED_US)
        say(page, 200, "{\"live\":true}");
    else
        say(page, 503, "{\"live\":false,\"error\":\"the loop has been silent for %" PRIu64 " ms\"}", silence_us / 1000);
}

static void on_ready(const struct page_source *source, const char *rest, struct page *page)
{
    struct snapshot *snapshot = ask(source->post, page);
    (void)rest;
    if (!snapshot)
        return;
    page->type = type_json;
    if (snapshot->ready)
        say(page, 200, "{\"ready\":true}");
    else if (snapshot->draining || snapshot->failures_count == 0)
        say(page, 503, "{\"ready\":false,\"error\":\"%s\"}",
            snapshot->draining ? "the broker is draining" : "no worker is ready for any model");
    else
        say(page, 503,
            "{\"ready\":false,\"error\":\"no worker is ready for any model; %u could not be loaded: `penstock models` "
            "says why\"}",
            snapshot->failures_count);
    post_release(source->post, snapshot);
}

static int hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* "a%20b" -> "a b". False when it is malformed, too long or holds a zero byte. */
static bool decode(const char *text, size_t length, char *to, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < length ? hex(text[i + 1]) : -1, low = high >= 0 ? hex(text[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= room)
            return false;
        to[used++] = c;
    }
    to[used] = '\0';
    return used > 0;
}

/* "NAME" and "NAME/versions/V", each with `last` behind it. */
static bool parse_model(const char *rest, const char *last, char *name, size_t room, uint64_t *ret_version)
{
    size_t length = strcspn(rest, "/");
    const char *tail = rest + length;
    *ret_version = 0;
    if (!decode(rest, length, name, room))
        return false;
    if (strncmp(tail, "/versions/", 10) == 0) {
        char *end;
        *ret_version = strtoull(tail + 10, &end, 10);
        if (end == tail + 10 || *ret_version == 0)
            return false;
        tail = end;
    }
    return strcmp(tail, last) == 0;
}

static void say_failure(struct page *page, const struct snapshot *snapshot, const struct failure_row *failure)
{
    char text[FAILURE_TEXT_BYTES + 128];
    snprintf(text, sizeof text, "worker %.64s could not load it: %s", snapshot->workers[failure->worker].name,
             failure->text);
    page->status = 503;
    writer_text(&page->body, "{\"ready\":false,\"error\":");
    writer_string(&page->body, text);
    writer_text(&page->body, "}\n");
}

static void on_model(const struct page_source *source, const char *rest, struct page *page)
{
    char name[METRICS_NAME_BYTES];
    uint64_t version;
    page->type = type_json;
    if (!parse_model(rest, "/ready", name, sizeof name, &version)) {
        say(page, 404, "{\"error\":\"ask for /v2/models/NAME/ready or /v2/models/NAME/versions/VERSION/ready\"}");
        return;
    }
    struct snapshot *snapshot = ask(source->post, page);
    if (!snapshot)
        return;
    const struct model_row *row = snapshot_model(snapshot, name, version);
    const struct failure_row *failure = row && row->ready ? NULL : snapshot_failure(snapshot, name, version);
    if (failure)
        say_failure(page, snapshot, failure);
    else if (!row)
        say(page, 404, "{\"ready\":false,\"error\":\"no worker offers a model of that name and version\"}");
    else if (row->ready == 0 || snapshot->draining)
        say(page, 503, "{\"ready\":false,\"error\":\"%s\"}",
            row->ready ? "the broker is draining" : "no worker is ready for the model");
    else
        say(page, 200, "{\"ready\":true,\"version\":%" PRIu64 ",\"workers\":%u}", row->version, row->ready);
    post_release(source->post, snapshot);
}

/* "ID", "kept", "slow.chrome": the questions of `penstock trace`. */
static void on_trace(const struct page_source *source, const char *rest, struct page *page)
{
    struct pen_error error = {.status = PEN_OK};
    struct snapshot *snapshot = ask(source->post, page);
    if (!snapshot)
        return;
    page->type = type_json;
    enum pen_status status = trace_answer(snapshot, rest, &page->body, &error);
    post_release(source->post, snapshot);
    if (status == PEN_OK)
        return;
    writer_fini(&page->body);
    page->status = status == PEN_ERR_NOT_FOUND ? 404 : status == PEN_ERR_INVALID ? 400 : 503;
    writer_text(&page->body, "{\"error\":");
    writer_string(&page->body, error.text);
    writer_text(&page->body, "}\n");
}

/* "" for the pool, "NAME/versions/V" for a model. */
static void on_history(const struct page_source *source, const char *rest, struct page *page)
{
    char name[METRICS_NAME_BYTES];
    uint64_t version = 0;
    bool one = *rest != '\0';
    page->type = type_json;
    if (one && (!parse_model(rest, "", name, sizeof name, &version) || version == 0))
        say(page, 404, "{\"error\":\"ask for /api/history/ or /api/history/NAME/versions/VERSION\"}");
    else if (!historian_tell(source->historian, one ? name : NULL, version, &page->body))
        say(page, 503, "{\"error\":\"no memory for the history\"}");
}

/* "" for the list, "ID" for a picture, "ID.json" for its answer. */
static void on_preview(const struct page_source *source, const char *rest, struct page *page)
{
    char *end;
    uint64_t serial = strtoull(rest, &end, 10);
    bool answer = strcmp(end, ".json") == 0;
    page->type = type_json;
    if (*rest == '\0') {
        preview_write(source->previews, &page->body);
        return;
    }
    page->held = source->previews && (*end == '\0' || answer) ? calloc(1, sizeof *page->held) : NULL;
    if (!page->held || !previews_take(source->previews, serial, page->held)) {
        free(page->held);
        page->held = NULL;
        say(page, 404,
            "{\"error\":\"that picture is not kept (any more); the broker keeps some with --http-preview\"}");
        return;
    }
    const struct preview_part *part = answer ? &page->held->answer : &page->held->picture;
    page->type = answer ? type_json : page->held->type;
    page->fixed = preview_bytes(part);
    page->fixed_bytes = part->bytes;
}

static void on_events(const struct page_source *source, const char *rest, struct page *page)
{
    (void)source;
    (void)rest;
    page->type = "text/event-stream";
    page->stream = true;
}

/* ---- the table ---- */

static const struct route {
    const char *path; /* ends with '/': whatever is behind it is `rest` */
    void (*make)(const struct page_source *source, const char *rest, struct page *page);
} routes[] = {
    {"/metrics", on_metrics},  {"/v2/health/live", on_live},  {"/v2/health/ready", on_ready},
    {"/v2/models/", on_model}, {"/api/state.json", on_state}, {"/events", on_events},
    {"/api/trace/", on_trace}, {"/api/history/", on_history}, {"/api/preview/", on_preview},
};

static bool make_file(const char *path, struct page *page)
{
    for (size_t i = 0; i < dashboard_files_count; i++) {
        const struct dashboard_file *file = &dashboard_files[i];
        if (strcmp(path, file->path) != 0)
            continue;
        page->type = file->type;
        page->fixed = file->bytes;
        page->fixed_bytes = file->size;
        return true;
    }
    return false;
}

void page_make(const struct page_source *source, const char *path, struct page *ret_page)
{
    *ret_page = (struct page){.status = 200, .type = type_text};
    if (make_file(path, ret_page))
        return;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        size_t length = strlen(routes[i].path);
        bool prefix = routes[i].path[length - 1] == '/';
        if (prefix ? strncmp(path, routes[i].path, length) != 0 : strcmp(path, routes[i].path) != 0)
            continue;
        routes[i].make(source, path + length, ret_page);
        if (ret_page->body.failed) {
            page_fini(ret_page);
            *ret_page = (struct page){.status = 503, .type = type_text, .fixed = "no memory\n", .fixed_bytes = 10};
        }
        return;
    }
    say(ret_page, 404,
        "there are / /metrics /v2/health/live /v2/health/ready /v2/models/NAME/ready /api/state.json /api/history/ "
        "/api/trace/JOB /api/preview/ /events");
}

void page_fini(struct page *page)
{
    writer_fini(&page->body);
    preview_free(page->held);
}

bool page_event(struct post *post, struct writer *writer)
{
    struct snapshot *snapshot;
    enum pen_status status = post_get(post, AGE_US, TIMEOUT_US, &snapshot);
    if (status == PEN_ERR_CANCELLED)
        return false;
    if (status != PEN_OK) {
        writer_format(writer, "event: silent\ndata: {\"silence_us\":%" PRIu64 "}\n\n", post_silence_us(post));
        return true;
    }
    writer_text(writer, "data: ");
    metrics_json(snapshot, writer);
    writer_text(writer, "\n\n");
    post_release(post, snapshot);
    return !writer->failed;
}
