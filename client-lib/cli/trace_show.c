/* trace_show.c - columns: start, time, name with its depth, a bar on the scale of the whole. */
#include "trace_show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"

#define BAR_CELLS  32
#define NAME_CELLS 34
#define DEPTH_MAX  8

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *text(const cJSON *object, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return value ? value : "";
}

static const char *when(const cJSON *trace, char buffer[48])
{
    double us = number(trace, "admitted_unix_us");
    time_t seconds = (time_t)(us / 1e6);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t used = strftime(buffer, 48, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(buffer + used, 48 - used, ".%06dZ", (int)(us - (double)seconds * 1e6) % 1000000);
    return buffer;
}

void trace_show_line(const cJSON *trace, FILE *out)
{
    char stamp[48], total[AMOUNT_BYTES];
    fprintf(out, "%s  %-26s  %10s  %-9s  %-10s  %s:%.0f  %s\n", when(trace, stamp), text(trace, "job"),
            amount_us((uint64_t)number(trace, "total_us"), total), text(trace, "how"), text(trace, "status"),
            text(trace, "model"), number(trace, "version"), text(trace, "worker"));
}

static void show_head(const cJSON *trace, FILE *out)
{
    char stamp[48];
    fprintf(out, "job %s  %s:%.0f  %s, %s\n", text(trace, "job"), text(trace, "model"), number(trace, "version"),
            text(trace, "status"), text(trace, "how"));
    if (*text(trace, "error")) {
        fprintf(out, "  %s\n", text(trace, "error"));
    }
    fprintf(out, "  admitted %s, trace %s\n", when(trace, stamp), text(trace, "trace_id"));
    if (*text(trace, "worker")) {
        fprintf(out, "  worker %s, %s %s, batch of %.0f (%s), attempt %.0f\n", text(trace, "worker"),
                text(trace, "backend"), text(trace, "precision"), number(trace, "batch"), text(trace, "reason"),
                number(trace, "attempts"));
    }
}

static int depth_of(const cJSON *spans, const cJSON *span)
{
    int depth = 0;
    for (double parent = number(span, "parent"); parent >= 0 && depth < DEPTH_MAX; depth++) {
        parent = number(cJSON_GetArrayItem(spans, (int)parent), "parent");
    }
    return depth;
}

/* From cell `first` on, at least one cell: a short span must be seen, too. */
static void bar(double start, double us, double begin, double whole, char cells[BAR_CELLS + 1])
{
    double scale = whole > 0 ? BAR_CELLS / whole : 0;
    int first = (int)((start - begin) * scale), last = (int)((start - begin + us) * scale + 0.5);
    first = first < 0 ? 0 : first >= BAR_CELLS ? BAR_CELLS - 1 : first;
    last = last <= first ? first + 1 : last > BAR_CELLS ? BAR_CELLS : last;
    memset(cells, '.', BAR_CELLS);
    memset(cells + first, '#', (size_t)(last - first));
    cells[BAR_CELLS] = '\0';
}

void trace_show(const cJSON *trace, FILE *out)
{
    const cJSON *spans = cJSON_GetObjectItemCaseSensitive(trace, "spans"), *span;
    const cJSON *whole = cJSON_GetArrayItem(spans, 0);
    char cells[BAR_CELLS + 1], start[AMOUNT_BYTES + 1] = "-", takes[AMOUNT_BYTES], label[128];
    if (!whole) {
        return;
    }
    show_head(trace, out);
    fprintf(out, "  %10s  %10s  %-6s  %-*s  %s\n", "from", "takes", "who", NAME_CELLS, "what", "");
    cJSON_ArrayForEach(span, spans)
    {
        double from = number(span, "start_us"), us = number(span, "us");
        int depth = depth_of(spans, span);
        const char *detail = text(span, "detail");
        snprintf(label, sizeof label, "%*s%s%s%s", 2 * depth, "", text(span, "name"), *detail ? ": " : "", detail);
        bar(from, us, number(whole, "start_us"), number(whole, "us"), cells);
        amount_us((uint64_t)(from < 0 ? -from : from), start + 1); /* behind the sign */
        fprintf(out, "  %10s  %10s  %-6s  %-*.*s  %s\n", from < 0 ? start : start + 1, amount_us((uint64_t)us, takes),
                text(span, "side"), NAME_CELLS, NAME_CELLS, label, cells);
    }
}
