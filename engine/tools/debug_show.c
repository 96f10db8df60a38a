/* The log of a run in debug mode: --debug of `penstock-engine run`. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tool.h"

#define TEXT_BYTES ((size_t)16 << 20)

void tool_debug_print(const struct pen_session *session)
{
    char *text = malloc(TEXT_BYTES);
    if (text != NULL && pen_session_debug_text(session, text, TEXT_BYTES) > 0) {
        fputs(text, stdout);
    }
    free(text);
}

/* JSON has no NaN and no infinity: they are texts. */
static void number_add(cJSON *o, const char *name, double x)
{
    if (isfinite(x)) {
        cJSON_AddNumberToObject(o, name, x);
    } else {
        cJSON_AddStringToObject(o, name, isnan(x) ? "NaN" : x > 0.0 ? "Infinity" : "-Infinity");
    }
}

static cJSON *row_json(const struct pen_debug_row *row)
{
    static const char *const compared[] = {"not", "within", "beyond"};
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "node", row->node);
    cJSON_AddStringToObject(o, "op", row->op);
    cJSON_AddStringToObject(o, "backend", row->backend);
    cJSON_AddStringToObject(o, "kernel", row->kernel);
    cJSON_AddStringToObject(o, "shapes", row->shapes);
    cJSON_AddNumberToObject(o, "bytes", (double)row->bytes);
    cJSON_AddNumberToObject(o, "us", (double)row->ns / 1000.0);
    cJSON_AddNumberToObject(o, "nan", (double)row->nan);
    cJSON_AddNumberToObject(o, "infinite", (double)row->infinite);
    cJSON_AddNumberToObject(o, "beyond_f16", (double)row->beyond_f16);
    if (row->output != NULL) {
        cJSON_AddStringToObject(o, "output", row->output);
        cJSON_AddNumberToObject(o, "index", (double)row->index);
        number_add(o, "value", row->value);
    }
    cJSON_AddStringToObject(o, "compared", compared[row->compared]);
    cJSON_AddStringToObject(o, "note", row->note);
    number_add(o, "largest_deviation", row->largest);
    if (row->deviating != NULL) {
        cJSON_AddStringToObject(o, "deviating", row->deviating);
        cJSON_AddNumberToObject(o, "deviating_index", (double)row->deviating_index);
        cJSON_AddNumberToObject(o, "deviating_count", (double)row->deviating_count);
        number_add(o, "got", row->got);
        number_add(o, "expected", row->expected);
    }
    return o;
}

void tool_debug_json(struct cJSON *object, const struct pen_session *session)
{
    size_t count = 0;
    uint64_t lost = 0;
    const struct pen_debug_row *rows = pen_session_debug_rows(session, &count, &lost);
    cJSON *list = rows != NULL ? cJSON_AddArrayToObject(object, "debug") : NULL;
    for (size_t i = 0; i < count; i++) {
        cJSON_AddItemToArray(list, row_json(&rows[i]));
    }
    if (lost > 0) {
        cJSON_AddNumberToObject(object, "debug_lost", (double)lost);
    }
}
