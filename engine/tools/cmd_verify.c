#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify.h"

static const struct setting table[] = {
    TOOL_SETTINGS(struct verify_options),
#include "tools/tool_flags.def"
    {.name = "filter",
     .type = SETTING_TEXT,
     .offset = offsetof(struct verify_options, filter),
     .help = "only cases whose name contains this text, or fits it when it has a * or ?"},
    {.name = "list",
     .type = SETTING_FLAG,
     .offset = offsetof(struct verify_options, list),
     .help = "print the names of the cases and run none"},
    {.name = "jobs",
     .type = SETTING_INT,
     .offset = offsetof(struct verify_options, jobs),
     .def = "1",
     .min = 1,
     .max = 256,
     .help = "processes that share the cases; a case that crashes one is a failure and the rest goes on (1: all in "
             "this process)"},
    {.name = "expected",
     .type = SETTING_TEXT,
     .offset = offsetof(struct verify_options, expected),
     .help = "file of cases that must fail, `name<TAB>reason` per line, * and ? allowed; those skip, and one that "
             "passes is a failure unless its reason begins with `random`"},
    {.name = "by-op",
     .type = SETTING_FLAG,
     .offset = offsetof(struct verify_options, by_op),
     .help = "before the last line a table: op, NAME, passed, failed and skipped cases that use it"},
    {.name = "time",
     .type = SETTING_FLAG,
     .offset = offsetof(struct verify_options, time),
     .help = "a seventh field: milliseconds of the case, loading included"},
    {.name = "junit",
     .type = SETTING_TEXT,
     .offset = offsetof(struct verify_options, junit),
     .help = "also write JUnit XML to this file"},
    {.name = "placement",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct verify_options, placement),
     .def = "auto",
     .choices = "auto|strict|fallback",
     .help = "auto: strict when --backend names one, so that what it cannot take is a skip and never a pass on another "
             "backend"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine verify",
    .usage = "penstock-engine verify [options] PATH...",
    .about = "Runs cases with expected outputs and compares. A PATH is a case or a folder searched for cases: an ONNX "
             "test folder (model.onnx with\n"
             "test_data_set_*/input_N.pb, output_N.pb), a golden case (golden/NAME.json) or a light model (X.onnx with "
             "X_output_0.pb).",
    .after =
        "One line per case, tab-separated: pass|fail|skip, name, backend, max_abs, max_rel, reason (- when "
        "empty); last `N passed, N failed, N skipped`.\n"
        "JSON keys: cases[{result, name, backend, max_abs, max_rel, reason, with --time ms}], with --by-op by_op[{op, "
        "pass, fail, skip}], passed, failed, skipped.\n"
        "Exit codes: 0 none failed, 1 some failed, 2 wrong usage, 3 the backend is not available.",
    .table = table,
    .variables = tool_variables,
};

static bool wanted(const char *filter, const char *name)
{
    if (filter == NULL || filter[0] == '\0') {
        return true;
    }
    return strpbrk(filter, "*?") != NULL ? fnmatch(filter, name, 0) == 0 : strstr(name, filter) != NULL;
}

/* Drops the cases that the filter leaves out. */
static void list_filter(struct case_list *list, const char *filter)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (wanted(filter, list->items[i].name)) {
            list->items[kept++] = list->items[i];
        } else {
            free(list->items[i].path);
            free(list->items[i].name);
        }
    }
    list->count = kept;
}

static enum pen_status lists_read(const struct verify_options *options, const char *const *paths, size_t count,
                                  struct case_list *list, struct expected_list *expected, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        status = case_find(paths[i], list, reterr);
    }
    if (status == PEN_OK) {
        list_filter(list, options->filter);
    }
    if (status == PEN_OK && options->expected != NULL && options->expected[0] != '\0') {
        status = expected_read(options->expected, expected, reterr);
    }
    return status;
}

static int verify(const struct verify_options *options, const struct case_list *list, struct expected_list *expected)
{
    struct verify_report *report = NULL;
    struct pen_error error = {0};
    struct pen_env *env = NULL;
    int asked = tool_env(&options->tool, &env);
    if (asked != TOOL_OK) {
        return asked;
    }
    bool named = strcmp(pen_env_get(env, "backend"), "auto") != 0;
    pen_env_free(env);
    bool strict = strcmp(options->placement, "auto") == 0 ? named : strcmp(options->placement, "strict") == 0;
    if (verify_report_new(options, expected->count > 0 ? expected : NULL, &report, &error) != PEN_OK) {
        tool_fail(&error);
        return TOOL_USAGE;
    }
    int code = verify_pool(options, strict, list, verify_report_case, report);
    if (code == TOOL_OK && verify_report_finish(report, &error) != PEN_OK) {
        code = tool_fail(&error);
    }
    for (size_t i = 0; code == TOOL_OK && i < expected->count; i++) {
        if (!expected->items[i].used && (options->filter == NULL || options->filter[0] == '\0')) {
            fprintf(stderr, "penstock-engine: %s: '%s' names no case of this run\n", options->expected,
                    expected->items[i].name);
        }
    }
    if (code == TOOL_OK && verify_report_failed(report) > 0) {
        code = TOOL_FAILED;
    }
    verify_report_free(report);
    return code;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct verify_options *options = from;
    struct case_list list = {0};
    struct expected_list expected = {0};
    struct pen_error error = {0};
    int code = TOOL_OK;
    if (count == 0) {
        fprintf(stderr, "penstock-engine: verify needs at least one PATH\n");
        return TOOL_USAGE;
    }
    if (lists_read(options, paths, count, &list, &expected, &error) != PEN_OK) {
        tool_fail(&error);
        code = TOOL_USAGE;
    } else if (options->list) {
        for (size_t i = 0; i < list.count; i++) {
            printf("%s\n", list.items[i].name);
        }
    } else {
        code = verify(options, &list, &expected);
    }
    case_list_fini(&list);
    expected_fini(&expected);
    return code;
}

int cmd_verify(int argc, char **argv)
{
    struct verify_options options = {0};
    const struct tool_command command = {&program, &options, NULL, (size_t)argc, run, &options.tool};
    return tool_run(&command, argc, argv);
}
