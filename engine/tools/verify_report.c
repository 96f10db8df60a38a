#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify.h"

struct op_row {
    char name[40];
    uint64_t counts[CASE_OUTCOMES];
};

struct verify_report {
    const struct verify_options *options;
    struct expected_list *expected;
    uint64_t counts[CASE_OUTCOMES];
    struct op_row *ops;
    size_t op_count, op_room;
    cJSON *cases; /* NULL in text mode */
    struct junit *junit;
};

enum pen_status verify_report_new(const struct verify_options *options, struct expected_list *expected,
                                  struct verify_report **ret_report, struct pen_error *reterr)
{
    struct verify_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the report");
    }
    report->options = options;
    report->expected = expected;
    report->cases = options->tool.json ? cJSON_CreateArray() : NULL;
    enum pen_status status = PEN_OK;
    if (options->junit != NULL && options->junit[0] != '\0') {
        status = junit_new(options->junit, &report->junit, reterr);
    }
    if (status != PEN_OK) {
        verify_report_free(report);
        return status;
    }
    *ret_report = report;
    return PEN_OK;
}

static struct op_row *op_row(struct verify_report *report, const char *name)
{
    for (size_t i = 0; i < report->op_count; i++) {
        if (strcmp(report->ops[i].name, name) == 0) {
            return &report->ops[i];
        }
    }
    if (report->op_count == report->op_room) {
        size_t room = report->op_room == 0 ? 256 : report->op_room * 2;
        struct op_row *ops = realloc(report->ops, room * sizeof *ops);
        if (ops == NULL) {
            return NULL;
        }
        report->ops = ops;
        report->op_room = room;
    }
    struct op_row *row = &report->ops[report->op_count++];
    *row = (struct op_row){0};
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static void case_json(struct verify_report *report, const struct case_ref *ref, const char *backend,
                      const struct verify_result *r)
{
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "result", outcome_name(r->outcome));
    cJSON_AddStringToObject(entry, "name", ref->name);
    cJSON_AddStringToObject(entry, "backend", backend);
    cJSON_AddNumberToObject(entry, "max_abs", r->max_abs);
    cJSON_AddNumberToObject(entry, "max_rel", r->max_rel);
    cJSON_AddStringToObject(entry, "reason", r->reason[0] != '\0' ? r->reason : "-");
    if (report->options->time) {
        cJSON_AddNumberToObject(entry, "ms", (double)r->took_us / 1000.0);
    }
    cJSON_AddItemToArray(report->cases, entry);
}

void verify_report_case(struct verify_report *report, const struct case_ref *ref, const char *backend,
                        struct verify_result *r)
{
    if (report->expected != NULL) {
        expected_apply(report->expected, ref->name, r);
    }
    report->counts[r->outcome]++;
    for (uint32_t i = 0; report->options->by_op && i < r->ops.count; i++) {
        struct op_row *row = op_row(report, r->ops.names[i]);
        if (row != NULL) {
            row->counts[r->outcome]++;
        }
    }
    if (report->junit != NULL) {
        junit_case(report->junit, ref->name, backend, r);
    }
    if (report->cases != NULL) {
        case_json(report, ref, backend, r);
        return;
    }
    printf("%s\t%s\t%s\t%.3g\t%.3g\t%s", outcome_name(r->outcome), ref->name, backend, r->max_abs, r->max_rel,
           r->reason[0] != '\0' ? r->reason : "-");
    if (report->options->time) {
        printf("\t%.3f", (double)r->took_us / 1000.0);
    }
    putchar('\n');
    fflush(stdout);
}

uint64_t verify_report_failed(const struct verify_report *report)
{
    return report->counts[CASE_FAIL];
}

static int compare_rows(const void *a, const void *b)
{
    return strcmp(((const struct op_row *)a)->name, ((const struct op_row *)b)->name);
}

static void finish_text(const struct verify_report *report)
{
    for (size_t i = 0; i < report->op_count; i++) {
        const struct op_row *row = &report->ops[i];
        printf("%sop\t%s\t%llu\t%llu\t%llu\n", i == 0 ? "# op\tname\tpass\tfail\tskip\n" : "", row->name,
               (unsigned long long)row->counts[CASE_PASS], (unsigned long long)row->counts[CASE_FAIL],
               (unsigned long long)row->counts[CASE_SKIP]);
    }
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)report->counts[CASE_PASS],
           (unsigned long long)report->counts[CASE_FAIL], (unsigned long long)report->counts[CASE_SKIP]);
}

static void finish_json(struct verify_report *report)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "cases", report->cases);
    report->cases = NULL;
    if (report->options->by_op) {
        cJSON *rows = cJSON_AddArrayToObject(root, "by_op");
        for (size_t i = 0; i < report->op_count; i++) {
            cJSON *row = cJSON_CreateObject();
            cJSON_AddStringToObject(row, "op", report->ops[i].name);
            for (int o = 0; o < CASE_OUTCOMES; o++) {
                cJSON_AddNumberToObject(row, outcome_name((enum outcome)o), (double)report->ops[i].counts[o]);
            }
            cJSON_AddItemToArray(rows, row);
        }
    }
    cJSON_AddNumberToObject(root, "passed", (double)report->counts[CASE_PASS]);
    cJSON_AddNumberToObject(root, "failed", (double)report->counts[CASE_FAIL]);
    cJSON_AddNumberToObject(root, "skipped", (double)report->counts[CASE_SKIP]);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

enum pen_status verify_report_finish(struct verify_report *report, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (report->op_count > 0) {
        qsort(report->ops, report->op_count, sizeof *report->ops, compare_rows);
    }
    if (report->junit != NULL) {
        status = junit_finish(report->junit, report->options->junit, reterr);
        report->junit = NULL;
    }
    if (report->cases != NULL) {
        finish_json(report);
    } else {
        finish_text(report);
    }
    return status;
}

void verify_report_free(struct verify_report *report)
{
    if (report != NULL) {
        if (report->junit != NULL) {
            junit_finish(report->junit, report->options->junit, NULL);
        }
        cJSON_Delete(report->cases);
        free(report->ops);
        free(report);
    }
}
