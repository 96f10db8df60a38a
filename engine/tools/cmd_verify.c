#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/case.h"
#include "tools/tool.h"

struct verify_options {
    struct tool_options tool;
    const char *filter;
    bool list;
    const char *placement;
};

static const struct setting table[] = {
    TOOL_SETTINGS(struct verify_options),
    {.name = "filter",
     .type = SETTING_TEXT,
     .offset = offsetof(struct verify_options, filter),
     .help = "only cases whose name contains this text"},
    {.name = "list",
     .type = SETTING_FLAG,
     .offset = offsetof(struct verify_options, list),
     .help = "print the names of the cases and run none"},
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
    .after = "One line per case, tab-separated: pass|fail|skip, name, backend, max_abs, max_rel, reason (- when "
             "empty); last `N passed, N failed, N skipped`.\n"
             "JSON keys: cases[{result, name, backend, max_abs, max_rel, reason}], passed, failed, skipped.\n"
             "Exit codes: 0 none failed, 1 some failed, 2 wrong usage, 3 the backend is not available.",
    .table = table,
};

enum outcome { CASE_PASS, CASE_FAIL, CASE_SKIP, CASE_OUTCOMES };
static const char *const outcome_names[] = {"pass", "fail", "skip"};

struct verify {
    const struct verify_options *options;
    struct pen_engine *engine;
    uint64_t counts[CASE_OUTCOMES];
    cJSON *cases; /* NULL in text mode */
};

static void report(struct verify *v, const struct case_ref *ref, enum outcome outcome, const struct comparison *c)
{
    const char *reason = c->reason[0] != '\0' ? c->reason : "-";
    v->counts[outcome]++;
    if (v->cases == NULL) {
        printf("%s\t%s\t%s\t%.3g\t%.3g\t%s\n", outcome_names[outcome], ref->name, pen_engine_backend(v->engine),
               c->max_abs, c->max_rel, reason);
        fflush(stdout);
        return;
    }
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "result", outcome_names[outcome]);
    cJSON_AddStringToObject(entry, "name", ref->name);
    cJSON_AddStringToObject(entry, "backend", pen_engine_backend(v->engine));
    cJSON_AddNumberToObject(entry, "max_abs", c->max_abs);
    cJSON_AddNumberToObject(entry, "max_rel", c->max_rel);
    cJSON_AddStringToObject(entry, "reason", reason);
    cJSON_AddItemToArray(v->cases, entry);
}

/* A reason on one line, without tabs. */
static void reason_set(struct comparison *c, const char *text)
{
    snprintf(c->reason, sizeof c->reason, "%.*s", (int)sizeof c->reason - 1, text);
    for (char *p = c->reason; *p != '\0'; p++) {
        *p = *p == '\t' || *p == '\n' ? ' ' : *p;
    }
}

static enum outcome set_run(struct pen_session *session, const struct pen_model *model, const struct case_set *set,
                            const struct tolerance *tolerance, struct comparison *c)
{
    struct rt_value outputs[CASE_VALUES_MAX];
    struct pen_error error = {0};
    size_t declared = 0;
    const struct pen_tensor *sigs = pen_model_outputs(model, &declared);
    if (set->expected_count != declared || declared > CASE_VALUES_MAX) {
        snprintf(c->reason, sizeof c->reason, "the case expects %u outputs, the model gives %zu", set->expected_count,
                 declared);
        return CASE_FAIL;
    }
    enum pen_status status =
        session_run_values(session, set->inputs, set->input_count, outputs, CASE_VALUES_MAX, &error);
    if (status != PEN_OK) {
        reason_set(c, error.text[0] != '\0' ? error.text : pen_status_name(status));
        return status == PEN_ERR_UNSUPPORTED ? CASE_SKIP : CASE_FAIL;
    }
    for (uint32_t i = 0; i < set->expected_count; i++) {
        if (!compare_value(&outputs[i], &set->expected[i], tolerance, set->noise[i], sigs[i].name, c)) {
            return CASE_FAIL;
        }
    }
    return CASE_PASS;
}

static enum outcome sets_run(const struct case_ref *ref, struct pen_model *model, struct comparison *c)
{
    struct pen_error error = {0};
    struct pen_session *session = NULL;
    struct case_set *set = malloc(sizeof *set);
    struct rt_arena arena;
    rt_arena_init(&arena, (uint64_t)8 << 30);
    enum outcome outcome = CASE_PASS;
    if (set == NULL || pen_session_new(model, &session, &error) != PEN_OK) {
        reason_set(c, "no memory for a session");
        outcome = CASE_FAIL;
    }
    for (uint32_t i = 0; outcome == CASE_PASS && i < case_sets(ref); i++) {
        struct tolerance tolerance;
        rt_arena_reset(&arena);
        if (case_read(ref, i, model, &arena, set, &tolerance, &error) != PEN_OK) {
            reason_set(c, error.text);
            outcome = CASE_FAIL;
        } else {
            outcome = set_run(session, model, set, &tolerance, c);
        }
    }
    pen_session_free(session);
    rt_arena_fini(&arena);
    free(set);
    return outcome;
}

static void case_run(struct verify *v, const struct case_ref *ref)
{
    struct comparison c = {0};
    struct pen_error error = {0};
    struct pen_model *model = NULL;
    struct rt_arena arena;
    rt_arena_init(&arena, (uint64_t)1 << 30);
    const char *path = case_model_path(ref, &arena, &error);
    enum pen_status status = path != NULL ? pen_model_load(v->engine, path, &model, &error) : PEN_ERR_CORRUPT;
    enum outcome outcome;
    if (status == PEN_OK) {
        outcome = sets_run(ref, model, &c);
    } else {
        reason_set(&c, error.text);
        outcome = status == PEN_ERR_UNSUPPORTED ? CASE_SKIP : CASE_FAIL;
    }
    report(v, ref, outcome, &c);
    pen_model_free(model);
    rt_arena_fini(&arena);
}

static void finish(struct verify *v)
{
    if (v->cases == NULL) {
        printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)v->counts[CASE_PASS],
               (unsigned long long)v->counts[CASE_FAIL], (unsigned long long)v->counts[CASE_SKIP]);
        return;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "cases", v->cases);
    cJSON_AddNumberToObject(root, "passed", (double)v->counts[CASE_PASS]);
    cJSON_AddNumberToObject(root, "failed", (double)v->counts[CASE_FAIL]);
    cJSON_AddNumberToObject(root, "skipped", (double)v->counts[CASE_SKIP]);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

static int verify(const struct verify_options *options, const struct case_list *list)
{
    struct verify v = {.options = options};
    bool named = strcmp(options->tool.backend, "auto") != 0;
    bool strict = strcmp(options->placement, "auto") == 0 ? named : strcmp(options->placement, "strict") == 0;
    int code = tool_engine(&options->tool, strict, &v.engine);
    if (code != TOOL_OK) {
        return code;
    }
    v.cases = options->tool.json ? cJSON_CreateArray() : NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (options->filter == NULL || strstr(list->items[i].name, options->filter) != NULL) {
            case_run(&v, &list->items[i]);
        }
    }
    finish(&v);
    pen_engine_free(v.engine);
    return v.counts[CASE_FAIL] == 0 ? TOOL_OK : TOOL_FAILED;
}

int cmd_verify(int argc, char **argv)
{
    struct verify_options options = {0};
    struct settings_store *store = NULL;
    enum settings_outcome outcome = SETTINGS_RUN;
    struct pen_error error = {0};
    struct case_list list = {0};
    size_t count = 0;
    const char **paths = calloc((size_t)argc + 1, sizeof *paths);
    if (paths == NULL || settings_load(&program, argc, argv, &options, paths, (size_t)argc, &count, &outcome, &store,
                                       &error) != PEN_OK) {
        free((void *)paths);
        tool_fail(&error);
        return TOOL_USAGE;
    }
    int code = TOOL_OK;
    if (outcome == SETTINGS_RUN && count == 0) {
        fprintf(stderr, "penstock-engine: verify needs at least one PATH\n");
        code = TOOL_USAGE;
    }
    for (size_t i = 0; outcome == SETTINGS_RUN && code == TOOL_OK && i < count; i++) {
        if (case_find(paths[i], &list, &error) != PEN_OK) {
            tool_fail(&error);
            code = TOOL_USAGE;
        }
    }
    if (outcome == SETTINGS_RUN && code == TOOL_OK && options.list) {
        for (size_t i = 0; i < list.count; i++) {
            printf("%s\n", list.items[i].name);
        }
    } else if (outcome == SETTINGS_RUN && code == TOOL_OK) {
        code = verify(&options, &list);
    }
    case_list_fini(&list);
    settings_free(store);
    free((void *)paths);
    return code;
}
