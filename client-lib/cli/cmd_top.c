/* cmd_top.c - `penstock top`: the pool, live. q quits, arrows and page keys scroll, the window may change its size. */
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "command.h"
#include "top_frame.h"

struct options {
    struct common common;
    int64_t interval_us;
    bool once;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "interval",
     .type = SETTING_DURATION,
     .offset = offsetof(struct options, interval_us),
     .def = "1s",
     .unit = "s",
     .min = 50000,
     .max = 3600000000,
     .help = "time between two looks"},
    {.name = "once",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, once),
     .def = "false",
     .help = "print one frame as text and leave; what happens without a terminal too"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock top",
    .usage = "penstock top [options]",
    .about = "Watches the pool: queues, workers, backends, cache. Keys: q quits, arrows, page up and page down scroll.",
    .after = "JSON (one look): {\"stats\": {uptime_us, jobs_admitted, jobs_done, jobs_failed, jobs_rejected, "
             "jobs_expired, jobs_cancelled,\n"
             "jobs_requeued, jobs_coalesced, results_duplicate, cache_hits, cache_misses, cache_bytes, cache_entries, "
             "queued, running,\n"
             "clients, workers, workers_lost, bytes_in, bytes_out, replies_kept, rss_bytes, draining, software, "
             "cache_kind,\n"
             "cache_state}}; models and workers: see these commands.\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static int stats_json(const struct pen_stats *s)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"uptime_us", s->uptime_us},
        {"jobs_admitted", s->jobs_admitted},
        {"jobs_done", s->jobs_done},
        {"jobs_failed", s->jobs_failed},
        {"jobs_rejected", s->jobs_rejected},
        {"jobs_expired", s->jobs_expired},
        {"jobs_cancelled", s->jobs_cancelled},
        {"jobs_requeued", s->jobs_requeued},
        {"jobs_coalesced", s->jobs_coalesced},
        {"results_duplicate", s->results_duplicate},
        {"cache_hits", s->cache_hits},
        {"cache_misses", s->cache_misses},
        {"cache_bytes", s->cache_bytes},
        {"cache_entries", s->cache_entries},
        {"queued", s->queued},
        {"running", s->running},
        {"clients", s->clients},
        {"workers", s->workers},
        {"workers_lost", s->workers_lost},
        {"bytes_in", s->bytes_in},
        {"bytes_out", s->bytes_out},
        {"replies_kept", s->replies_kept},
        {"rss_bytes", s->rss_bytes},
    };
    cJSON *json = cJSON_CreateObject(), *stats = cJSON_AddObjectToObject(json, "stats");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        cJSON_AddNumberToObject(stats, numbers[i].key, (double)numbers[i].value);
    }
    cJSON_AddBoolToObject(stats, "draining", s->draining);
    cJSON_AddStringToObject(stats, "software", s->software);
    cJSON_AddStringToObject(stats, "cache_kind", s->cache_kind);
    cJSON_AddStringToObject(stats, "cache_state", s->cache_state);
    return command_print(json);
}

static int once(const struct options *o, pen_client *client, struct top_frame *frame)
{
    struct top_view view;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    if (top_view_take(client, o->common.timeout_us, &view, &error) != PEN_OK) {
        return command_fail(&o->common, &error);
    }
    if (o->common.json) {
        code = stats_json(view.stats);
    } else {
        top_frame_make(&view, NULL, o->common.broker, frame);
        for (size_t i = 0; i < frame->count; i++) {
            puts(frame->lines[i]);
        }
    }
    top_view_fini(&view);
    return code;
}

static void draw(const struct top_frame *frame, size_t first, const char *trouble)
{
    erase();
    for (size_t i = first; i < frame->count && (int)(i - first) < LINES; i++) {
        attrset(frame->heading[i] ? A_REVERSE : A_NORMAL);
        mvaddnstr((int)(i - first), 0, frame->lines[i], COLS);
    }
    if (trouble) {
        attrset(A_BOLD);
        mvaddnstr(LINES - 1, 0, trouble, COLS);
    }
    attrset(A_NORMAL);
    refresh();
}

/* False: quit. */
static bool key(int pressed, size_t lines, size_t *first)
{
    size_t page = LINES > 1 ? (size_t)LINES - 1 : 1, last = lines ? lines - 1 : 0;
    switch (pressed) {
    case 'q':
    case 'Q':
        return false;
    case KEY_DOWN:
        *first = *first < last ? *first + 1 : last;
        return true;
    case KEY_UP:
        *first -= *first > 0;
        return true;
    case KEY_NPAGE:
        *first = *first + page < last ? *first + page : last;
        return true;
    case KEY_PPAGE:
        *first = *first > page ? *first - page : 0;
        return true;
    default: /* KEY_RESIZE: drawn again at once */
        return true;
    }
}

static void watch(const struct options *o, pen_client *client, struct top_frame *frame)
{
    struct top_view view = {NULL, NULL, NULL, 0}, before = view, next;
    size_t first = 0;
    bool go_on = true;
    while (go_on) {
        struct pen_error error = {.status = PEN_OK, .text = ""};
        if (top_view_take(client, o->interval_us < 1000000 ? 1000000 : o->interval_us, &next, &error) == PEN_OK) {
            top_view_fini(&before);
            before = view;
            view = next;
            top_frame_make(&view, &before, o->common.broker, frame);
        }
        timeout((int)(o->interval_us / 1000));
        int pressed;
        do { /* a key is acted on at once, the next look comes when the time is over */
            draw(frame, first, error.status == PEN_OK ? NULL : error.text);
            pressed = getch();
            go_on = key(pressed, frame->count, &first);
        } while (go_on && pressed != ERR);
    }
    top_view_fini(&view);
    top_view_fini(&before);
}

static int top(const struct options *o)
{
    int code = EXIT_OK;
    struct top_frame *frame = calloc(1, sizeof *frame);
    pen_client *client = frame ? command_connect(&o->common, "penstock top", &code) : NULL;
    if (client && (o->once || o->common.json || !isatty(STDOUT_FILENO))) {
        code = once(o, client, frame);
    } else if (client) {
        SCREEN *screen = newterm(NULL, stdout, stdin);
        if (screen) {
            cbreak();
            noecho();
            keypad(stdscr, TRUE);
            curs_set(0);
            watch(o, client, frame);
            endwin();
            delscreen(screen);
        } else {
            code = once(o, client, frame); /* a terminal that ncurses does not know */
        }
    }
    pen_client_free(client);
    free(frame);
    return code;
}

int command_top(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&program, argc, argv, &options, NULL, 0, &count, &store, &code)) {
        code = top(&options);
        settings_free(store);
    }
    return code;
}
