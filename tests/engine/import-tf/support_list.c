/*
 * support_list KIND CASES README [--update] - the block of README between the marks `support` and `/support`: every operator or layer that the importer's table
 * holds, and in how many cases of CASES it occurs. Fails when the block differs (or writes it with --update), and when something has no case and no reason.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "support_names.h"

#define ROWS_MAX       512
#define TEXT_MAX       65536
#define LINE_MAX_BYTES 150

struct row {
    const char *name;
    unsigned cases;
};

struct table {
    struct row rows[ROWS_MAX];
    unsigned count;
};

/* Held elsewhere, and why no case of the runtime's own says so. */
static const struct {
    const char *name, *why;
} excused[] = {
    {"Assert", "gives nothing"},
    {"NoOp", "gives nothing"},
    {"Placeholder", "in every case"},
    {"PlaceholderWithDefault", "as Identity where nobody feeds it"},
    {"BiasAddV1", "as BiasAdd"},
    {"TensorArrayCloseV3", "gives nothing"},
    {"InitializeTable", "as LookupTableImport"},
    {"InitializeTableV2", "as LookupTableImportV2"},
    {"HashTable", "as HashTableV2"},
    {"LookupTableImport", "as LookupTableImportV2"},
    {"LookupTableFind", "as LookupTableFindV2"},
    {"LookupTableSize", "as LookupTableSizeV2"},
    {"PreventGradient", "as Identity"},
    {"Inv", "as Reciprocal"},
    {"TopK", "as TopKV2"},
    {"Conv3DBackpropInputV2", "not in TF.js; as the layer Conv3DTranspose"},
    {"NonMaxSuppression", "not in TF.js; as version 2"},
    {"BitwiseAnd", "the peer cannot read its own attribute"},
    {"BitwiseOr", "not in TF.js"},
    {"BitwiseXor", "not in TF.js"},
    {"Invert", "not in TF.js"},
    {"LogicalXor", "not in TF.js"},
    {"Softsign", "not in TF.js; as the activation of layers"},
    {"SpaceToDepth", "not in TF.js; as TFLite's"},
    {"RandomUniform", "TF.js does not use its seed"},
    {"AdditiveAttention", "not in TF.js; tests/conformance/exporters"},
    {"Attention", "not in TF.js; tests/conformance/exporters"},
    {"Conv1DTranspose", "not in TF.js; tests/conformance/exporters"},
    {"DepthwiseConv1D", "not in TF.js; tests/conformance/exporters"},
    {"GroupNormalization", "not in TF.js; tests/conformance/exporters"},
    {"Identity", "not in TF.js; tests/conformance/exporters"},
    {"MultiHeadAttention", "not in TF.js; tests/conformance/exporters"},
    {"UnitNormalization", "not in TF.js; tests/conformance/exporters"},
    {"CALL", "the interpreter has none"},
    {"DENSIFY", "test_tflite_hostile.c"},
    {"HASHTABLE", "its keys or values are texts"},
    {"HASHTABLE_FIND", "its keys or values are texts"},
    {"HASHTABLE_IMPORT", "its keys or values are texts"},
    {"HASHTABLE_SIZE", "its keys or values are texts"},
    {"MULTINOMIAL", "its answer is random"},
    {"RANDOM_STANDARD_NORMAL", "its answer is random"},
    {"RANDOM_UNIFORM", "its answer is random"},
};

static const char *excuse(const char *name)
{
    for (size_t i = 0; i < sizeof excused / sizeof excused[0]; i++) {
        if (strcmp(excused[i].name, name) == 0)
            return excused[i].why;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void row_add(struct table *t, const char *name)
{
    if (t->count == ROWS_MAX)
        exit(2);
    t->rows[t->count++] = (struct row){.name = name};
}

static void rows_read(struct table *t, const char *kind)
{
    const char *(*at)(uint32_t) = strcmp(kind, "graph") == 0    ? support_graph
                                  : strcmp(kind, "layers") == 0 ? support_layer
                                                                : support_lite;
    for (uint32_t i = 0; at(i) != NULL; i++) {
        if (at(i)[0] != '\0')
            row_add(t, at(i));
    }
    qsort(t->rows, t->count, sizeof *t->rows, by_name);
}

static bool line_has(const char *line, const char *kind, const char *name)
{
    char text[160];
    if (strcmp(kind, "lite") == 0) { /* a case is named by its operator, longer models by all they show */
        size_t bytes = strlen(name);
        const char *from = line + strlen("{\"n\":\""), *end = strchr(from, '"');
        for (const char *at = from; (at = strstr(at, name)) != NULL && at < end; at++) {
            if ((at == from || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '"'))
                return true;
        }
        return false;
    }
    snprintf(text, sizeof text, strcmp(kind, "graph") == 0 ? "\"op\":\"%s\"" : "\"class_name\":\"%s\"", name);
    return strstr(line, text) != NULL;
}

static unsigned cases_count(struct table *t, const char *kind, char *cases)
{
    unsigned lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        for (unsigned i = 0; i < t->count; i++)
            t->rows[i].cases += line_has(line, kind, t->rows[i].name) ? 1u : 0u;
    }
    return lines;
}

static unsigned block_write(const struct table *t, unsigned lines, char *text)
{
    unsigned bare = 0;
    size_t column = 0;
    size_t at = (size_t)snprintf(
        text, TEXT_MAX, "%u names, %u cases; behind each name in how many of them it occurs:\n\n", t->count, lines);
    for (unsigned i = 0; i < t->count; i++) {
        const struct row *r = &t->rows[i];
        const char *why = r->cases ? NULL : excuse(r->name);
        if (r->cases == 0 && !why) {
            fprintf(stderr, "%s has no case\n", r->name);
            bare++;
        }
        char item[200];
        const char *end = i + 1 < t->count ? "," : ".";
        int bytes = why ? snprintf(item, sizeof item, "`%s` (%s)%s", r->name, why, end)
                        : snprintf(item, sizeof item, "`%s` %u%s", r->name, r->cases, end);
        column += (size_t)bytes + 1;
        bool wrap = column > LINE_MAX_BYTES || i == 0;
        column = wrap ? (size_t)bytes : column;
        if (at < TEXT_MAX)
            at += (size_t)snprintf(text + at, TEXT_MAX - at, "%s%s", i == 0 ? "" : wrap ? "\n" : " ", item);
    }
    if (at + 1 < TEXT_MAX)
        memcpy(text + at, "\n", 2);
    return bare;
}

int main(int argc, char **argv)
{
    static char text[TEXT_MAX], begin[64], end[64];
    struct table t = {.count = 0};
    if (argc < 4) {
        fprintf(stderr, "support_list graph|layers|lite CASES README [--update]\n");
        return 2;
    }
    char *cases = file_read(argv[2], &(size_t){0}), *readme = file_read(argv[3], &(size_t){0});
    rows_read(&t, argv[1]);
    unsigned bare = block_write(&t, cases_count(&t, argv[1], cases), text);
    snprintf(begin, sizeof begin, "<!-- support %s -->\n", argv[1]);
    snprintf(end, sizeof end, "<!-- /support %s -->\n", argv[1]);
    char *from = strstr(readme, begin), *to = from ? strstr(from, end) : NULL;
    if (!to) {
        fprintf(stderr, "%s has no marks %s", argv[3], begin);
        return 1;
    }
    from += strlen(begin);
    bool same = (size_t)(to - from) == strlen(text) && memcmp(from, text, strlen(text)) == 0;
    if (!same && argc > 4 && strcmp(argv[4], "--update") == 0) {
        FILE *out = fopen(argv[3], "we");
        if (!out || fwrite(readme, 1, (size_t)(from - readme), out) + 1 == 0 || fputs(text, out) < 0 ||
            fputs(to, out) < 0 || fclose(out) != 0)
            return 2;
        same = true;
    }
    if (!same)
        fprintf(stderr, "%s does not list what the table holds; run support_list again with --update\n", argv[3]);
    free(cases);
    free(readme);
    return same && bare == 0 ? 0 : 1;
}
