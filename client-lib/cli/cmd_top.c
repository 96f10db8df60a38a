/* cmd_top.c - `penstock top`: the pool, live. Keys scroll, sort and filter; the window may change its size. */
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "top_frame.h"

struct options {
    struct common common;
    int64_t interval_us;
    bool once, reverse;
    const char *sort, *filter;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "interval",
     .type = SETTING_DURATION,
     .offset = offsetof(struct options, interval_us),
     .def = "1s",
     .min = 50000,
     .max = 3600000000,
     .help = "time between two looks"},
    {.name = "once",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, once),
     .def = "false",
     .help = "print one frame as text and leave; what happens without a terminal too"},
    {.name = "sort",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct options, sort),
     .def = "name",
     .choices = "name|busy|rate|failed",
     .help = "what comes first"},
    {.name = "reverse",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, reverse),
     .def = "false",
     .help = "what comes last comes first"},
    {.name = "filter",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, filter),
     .def = "",
     .help = "only models and workers with this in their name, backend or host"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock top",
    .usage = "penstock top [options]",
    .about = "Watches the pool: queues, workers, backends, cache. Keys: q quits; arrows, page up and page "
             "down scroll;\ns sorts by the next column, r turns the order round, / filters by a text (return ends it, "
             "escape drops it).",
    .after = "JSON (one look): {\"stats\": {uptime_us, jobs_admitted, jobs_done, jobs_failed, jobs_rejected, "
             "jobs_expired, jobs_cancelled,\n"
             "jobs_requeued, jobs_coalesced, results_duplicate, cache_hits, cache_misses, cache_bytes, cache_entries, "
             "queued, running,\n"
             "clients, workers, workers_lost, bytes_in, bytes_out, replies_kept, rss_bytes, draining, software, "
             "cache_kind,\n"
             "cache_state}}; models and workers: see these commands.\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static const struct setting stats_settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct settings_program stats_program = {
    .name = "penstock stats",
    .usage = "penstock stats [options]",
    .about = "Prints the pool's counters once, as `penstock top --once` does.",
    .after = "JSON: that of penstock top.\n\n" EXIT_CODES_TEXT,
    .table = stats_settings,
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

static struct top_order order_of(const struct options *o)
{
    struct top_order order = {.by = top_sort_parse(o->sort), .reverse = o->reverse};
    snprintf(order.filter, sizeof order.filter, "%s", o->filter);
    return order;
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
        struct top_order order = order_of(o);
        top_frame_make(&view, NULL, o->common.broker, &order, frame);
        for (size_t i = 0; i < frame->count; i++) {
            puts(frame->lines[i]);
        }
    }
    top_view_fini(&view);
    return code;
}

/* What the keys have changed. */
struct screen {
    size_t first; /* line at the top */
    struct top_order order;
    bool typing; /* a filter */
};

static void draw(const struct top_frame *frame, const struct screen *screen, const char *trouble)
{
    erase();
    for (size_t i = screen->first; i < frame->count && (int)(i - screen->first) < LINES; i++) {
        attrset(frame->heading[i] ? A_REVERSE : A_NORMAL);
        mvaddnstr((int)(i - screen->first), 0, frame->lines[i], COLS);
    }
    attrset(A_BOLD);
    if (screen->typing) {
        mvprintw(LINES - 1, 0, "filter: %s_", screen->order.filter);
    } else if (trouble) {
        mvaddnstr(LINES - 1, 0, trouble, COLS);
    }
    attrset(A_NORMAL);
    refresh();
}

/* A key while the filter is typed. */
static void key_typed(int pressed, struct screen *screen)
{
    char *filter = screen->order.filter;
    size_t length = strlen(filter);
    if (pressed == '\n' || pressed == '\r' || pressed == KEY_ENTER) {
        screen->typing = false;
    } else if (pressed == 27) {
        screen->typing = false;
        filter[0] = '\0';
    } else if ((pressed == KEY_BACKSPACE || pressed == 127 || pressed == 8) && length) {
        filter[length - 1] = '\0';
    } else if (pressed >= ' ' && pressed < 127 && length + 1 < sizeof screen->order.filter) {
        filter[length] = (char)pressed;
        filter[length + 1] = '\0';
    }
}

static void key_scrolled(int pressed, size_t lines, size_t *first)
{
    size_t page = LINES > 1 ? (size_t)LINES - 1 : 1, last = lines ? lines - 1 : 0;
    switch (pressed) {
    case KEY_DOWN:
        *first = *first < last ? *first + 1 : last;
        break;
    case KEY_UP:
        *first -= *first > 0;
        break;
    case KEY_NPAGE:
        *first = *first + page < last ? *first + page : last;
        break;
    case KEY_PPAGE:
        *first = *first > page ? *first - page : 0;
        break;
    default: /* KEY_RESIZE: drawn again at once */
        break;
    }
}

/* False: quit. */
static bool key(int pressed, size_t lines, struct screen *screen)
{
    if (screen->typing) {
        key_typed(pressed, screen);
        return true;
    }
    switch (pressed) {
    case 'q':
    case 'Q':
        return false;
    case 's':
        screen->order.by = (enum top_sort)((screen->order.by + 1) % TOP_SORTS);
        return true;
    case 'r':
        screen->order.reverse = !screen->order.reverse;
        return true;
    case '/':
        screen->typing = true;
        screen->first = 0;
        return true;
    case 27:
        screen->order.filter[0] = '\0';
        return true;
    default:
        key_scrolled(pressed, lines, &screen->first);
        return true;
    }
}

static void watch(const struct options *o, pen_client *client, struct top_frame *frame)
{
    struct top_view view = {NULL, NULL, NULL, 0}, before = view, next;
    struct screen screen = {.order = order_of(o)};
    bool go_on = true;
    while (go_on) {
        struct pen_error error = {.status = PEN_OK, .text = ""};
        if (top_view_take(client, o->interval_us < 1000000 ? 1000000 : o->interval_us, &next, &error) == PEN_OK) {
            top_view_fini(&before);
            before = view;
            view = next;
        }
        timeout((int)(o->interval_us / 1000));
        int pressed;
        do { /* a key is acted on at once, the next look comes when the time is over */
            if (view.stats) {
                top_frame_make(&view, &before, o->common.broker, &screen.order, frame);
            }
            screen.first = screen.first < frame->count ? screen.first : 0;
            draw(frame, &screen, error.status == PEN_OK ? NULL : error.text);
            pressed = getch();
            go_on = pressed == ERR || key(pressed, frame->count, &screen);
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
            set_escdelay(50);
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
    if (command_settings(&(struct settings_call){&program, argc, argv, NULL, 0}, &options, &count, &store, &code)) {
        code = top(&options);
        settings_free(store);
    }
    return code;
}

int command_stats(int argc, char **argv)
{
    struct options options = {.once = true, .sort = "name", .filter = ""};
    struct settings_store *store = NULL;
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&(struct settings_call){&stats_program, argc, argv, NULL, 0}, &options, &count, &store,
                         &code)) {
        code = top(&options);
        settings_free(store);
    }
    return code;
}
