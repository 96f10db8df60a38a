#include "usage_merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNTS_BEGIN ",\"jobs\":" /* cannot stand inside a JSON string, where quotes are escaped */

static void write_counts(struct writer *writer, const struct usage_counts *counts)
{
    const char *before = ",\"";
#define X(name)                                                                                                        \
    writer_text(writer, before);                                                                                       \
    writer_text(writer, #name "\":");                                                                                  \
    writer_number(writer, counts->name);
    USAGE_COUNTS(X)
#undef X
    writer_text(writer, "}\n");
}

void usage_line(struct writer *writer, const struct usage_of *of, const struct usage_counts *counts)
{
    time_t seconds = (time_t)of->hour * 3600;
    struct tm parts;
    char stamp[32];
    gmtime_r(&seconds, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:00Z", &parts);
    writer_format(writer, "{\"hour\":\"%s\",\"broker\":\"%016" PRIx64 "\",\"tenant\":", stamp, of->broker);
    writer_string(writer, of->tenant);
    writer_text(writer, ",\"model\":");
    writer_string(writer, of->model);
    writer_text(writer, ",\"version\":");
    writer_number(writer, of->version);
    write_counts(writer, counts);
}

/* A line without its newline: begin is what it is of, or the whole line where it is not ours. */
struct usage_sum {
    const char *begin;
    struct usage_counts counts;
    bool ours;
};

/* `"name":NUMBER` and a comma or the end; moves `at` behind it. */
static bool count_read(const char **at, const char *name, uint64_t *ret)
{
    char head[32], *end;
    int size = snprintf(head, sizeof head, "\"%s\":", name);
    if (strncmp(*at, head, (size_t)size) != 0)
        return false;
    const char *digits = *at + size;
    if (*digits < '0' || *digits > '9')
        return false;
    *ret = strtoull(digits, &end, 10);
    *at = end + (*end == ',');
    return *end == ',' || *end == '}';
}

static bool counts_read(const char *at, struct usage_counts *ret)
{
    bool good = true;
#define X(name) good = good && count_read(&at, #name, &ret->name);
    USAGE_COUNTS(X)
#undef X
    return good && strcmp(at, "}") == 0;
}

static struct usage_sum line_read(char *text)
{
    struct usage_sum line = {.begin = text};
    char *counts = strstr(text, COUNTS_BEGIN);
    line.ours = counts && counts_read(counts + 1, &line.counts);
    if (line.ours)
        *counts = '\0';
    return line;
}

static int by_begin(const void *a, const void *b)
{
    const struct usage_sum *x = a, *y = b;
    int order = strcmp(x->begin, y->begin);
    return order != 0 ? order : (x->ours > y->ours) - (x->ours < y->ours);
}

static size_t lines_count(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    return count + (bytes > 0 && text[bytes - 1] != '\n');
}

static size_t lines_read(char *text, size_t bytes, struct usage_sum *lines)
{
    size_t count = 0;
    char *at = text, *end = text + bytes;
    while (at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        *(stop ? stop : end) = '\0';
        if (*at)
            lines[count++] = line_read(at);
        at = stop ? stop + 1 : end;
    }
    return count;
}

void usage_merge(char *text, size_t bytes, struct writer *writer)
{
    struct usage_sum *lines = malloc((lines_count(text, bytes) + 1) * sizeof *lines);
    if (!lines) {
        writer->failed = true;
        return;
    }
    size_t count = lines_read(text, bytes, lines);
    qsort(lines, count, sizeof *lines, by_begin);
    for (size_t i = 0; i < count; i++) {
        bool more =
            i + 1 < count && lines[i].ours && lines[i + 1].ours && strcmp(lines[i].begin, lines[i + 1].begin) == 0;
        if (more)
            usage_add(&lines[i + 1].counts, &lines[i].counts);
        if (more)
            continue;
        writer_text(writer, lines[i].begin);
        if (lines[i].ours)
            write_counts(writer, &lines[i].counts);
        else
            writer_text(writer, "\n");
    }
    free(lines);
}
