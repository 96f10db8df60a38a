/* The one place that shows what the engine chose: --explain of the subcommands. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

#include "tools/tool.h"

static const char *const headings[PEN_CHOICE_COUNT] = {
    [PEN_CHOICE_BACKEND] = "backends, in the order in which they are asked",
    [PEN_CHOICE_PASS] = "graph passes",
    [PEN_CHOICE_PRECISION] = "precision",
    [PEN_CHOICE_PLACEMENT] = "backend of each node",
    [PEN_CHOICE_KERNEL] = "kernel of each node",
    [PEN_CHOICE_BUCKET] = "shape buckets",
    [PEN_CHOICE_THREADS] = "threads",
};

static void row_print(const struct pen_explain_row *row)
{
    printf("  %s%s%-40s  %-24s  %s\n", row->scope, row->scope[0] != '\0' ? ": " : "", row->subject, row->choice,
           row->reason);
}

size_t tool_explain_count(const struct pen_explain *log)
{
    size_t count = 0;
    if (log != NULL) {
        (void)pen_explain_rows(log, &count, NULL);
    }
    return count;
}

void tool_explain_print(const struct pen_explain *log, size_t from)
{
    size_t count = 0;
    uint64_t lost = 0;
    const struct pen_explain_row *rows = log != NULL ? pen_explain_rows(log, &count, &lost) : NULL;
    for (unsigned about = 0; about < PEN_CHOICE_COUNT; about++) {
        bool first = true;
        for (size_t i = from; i < count; i++) {
            if (rows[i].about == about) {
                printf("%s%s%s", first ? "\n" : "", first ? headings[about] : "", first ? ":\n" : "");
                row_print(&rows[i]);
                first = false;
            }
        }
    }
    if (lost > 0) {
        printf("\n%" PRIu64 " more choices are not shown\n", lost);
    }
}

void tool_explain_json(struct cJSON *object, const struct pen_explain *log, size_t from)
{
    size_t count = 0;
    uint64_t lost = 0;
    const struct pen_explain_row *rows = log != NULL ? pen_explain_rows(log, &count, &lost) : NULL;
    cJSON *list = log != NULL ? cJSON_AddArrayToObject(object, "explain") : NULL;
    for (size_t i = from; i < count; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "about", pen_choice_name(rows[i].about));
        cJSON_AddStringToObject(o, "scope", rows[i].scope);
        cJSON_AddStringToObject(o, "subject", rows[i].subject);
        cJSON_AddStringToObject(o, "choice", rows[i].choice);
        cJSON_AddStringToObject(o, "reason", rows[i].reason);
        cJSON_AddItemToArray(list, o);
    }
    if (lost > 0) {
        cJSON_AddNumberToObject(object, "explain_lost", (double)lost);
    }
}
