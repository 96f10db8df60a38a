/* bench --modes: the modes default and prod beside each other, in pairs, so that what the machine does meanwhile meets both. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench.h"

#define PAIRS_MAX 20000
#define LOADS     15 /* pairs of loads */

struct pairs {
    double ms[2][PAIRS_MAX], ratios[PAIRS_MAX];
    size_t count;
};

static void pairs_add(struct pairs *p, double plain, double prod)
{
    p->ms[0][p->count] = plain;
    p->ms[1][p->count] = prod;
    p->ratios[p->count++] = plain / prod;
}

static void pairs_sort(struct pairs *p)
{
    qsort(p->ms[0], p->count, sizeof(double), bench_compare);
    qsort(p->ms[1], p->count, sizeof(double), bench_compare);
    qsort(p->ratios, p->count, sizeof(double), bench_compare);
}

static void pairs_print(const char *what, const struct pairs *p)
{
    size_t n = p->count;
    printf("%-4s  default %s, prod %s: %.4f times as fast (p10 %.4f, p90 %.4f of %zu pairs)\n", what,
           bench_time(p->ms[0][n / 2]).text, bench_time(p->ms[1][n / 2]).text, p->ratios[n / 2], p->ratios[n / 10],
           p->ratios[n * 9 / 10], n);
}

static void pairs_json(cJSON *root, const char *what, const struct pairs *p)
{
    cJSON *o = cJSON_AddObjectToObject(root, what);
    cJSON_AddNumberToObject(o, "default_ms", p->ms[0][p->count / 2]);
    cJSON_AddNumberToObject(o, "prod_ms", p->ms[1][p->count / 2]);
    cJSON_AddNumberToObject(o, "ratio", p->ratios[p->count / 2]);
    cJSON_AddNumberToObject(o, "p10", p->ratios[p->count / 10]);
    cJSON_AddNumberToObject(o, "p90", p->ratios[p->count * 9 / 10]);
}

static enum pen_status load_once(struct bench *b, double *ret_ms, struct pen_error *reterr)
{
    struct pen_model *model = NULL;
    uint64_t start = tool_now_ns();
    enum pen_status status = pen_model_load(b->engine, b->options->model, &model, reterr);
    *ret_ms = bench_ms_since(start);
    pen_model_free(model);
    return status;
}

static enum pen_status ready(struct bench *b, struct pen_error *reterr)
{
    enum pen_status status = pen_model_load(b->engine, b->options->model, &b->model, reterr);
    if (status == PEN_OK) {
        status = pen_session_new(b->model, &b->session, reterr);
    }
    if (status == PEN_OK) {
        status = bench_inputs(b, reterr);
    }
    return status == PEN_OK ? pen_session_warm(b->session, b->inputs, b->input_count, NULL, NULL, reterr) : status;
}

/* Each pair begins with the other mode, so that neither has the warm caches. */
static enum pen_status pair_take(struct bench *b, struct pairs *p,
                                 enum pen_status (*one)(struct bench *, double *, struct pen_error *),
                                 struct pen_error *reterr)
{
    double ms[2] = {0};
    size_t first = p->count % 2;
    enum pen_status status = one(&b[first], &ms[first], reterr);
    if (status == PEN_OK) {
        status = one(&b[1 - first], &ms[1 - first], reterr);
    }
    if (status == PEN_OK) {
        pairs_add(p, ms[0], ms[1]);
    }
    return status;
}

static enum pen_status pairs_time(struct bench *b, struct pairs *loads, struct pairs *runs, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (int i = 0; status == PEN_OK && i < LOADS; i++) {
        status = pair_take(b, loads, load_once, reterr);
    }
    for (int mode = 0; status == PEN_OK && mode < 2; mode++) {
        status = ready(&b[mode], reterr);
    }
    uint64_t until = tool_now_us() + (uint64_t)b->options->seconds_us;
    size_t want = b->options->runs > 0 ? (size_t)b->options->runs : 0;
    while (status == PEN_OK && runs->count < PAIRS_MAX &&
           (want > 0 ? runs->count < want : runs->count < 10 || tool_now_us() < until)) {
        status = pair_take(b, runs, bench_run, reterr);
    }
    return status;
}

static void pairs_show(const struct bench *b, struct pairs *loads, struct pairs *runs)
{
    pairs_sort(loads);
    pairs_sort(runs);
    if (!b->options->tool.json) {
        printf("model %s on %s\n", b->options->model, pen_engine_backend(b->engine));
        pairs_print("load", loads);
        pairs_print("run", runs);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", b->options->model);
    cJSON_AddStringToObject(o, "backend", pen_engine_backend(b->engine));
    cJSON_AddNumberToObject(o, "pairs", (double)runs->count);
    pairs_json(o, "load", loads);
    pairs_json(o, "run", runs);
    char *text = cJSON_PrintUnformatted(o);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(o);
}

int bench_modes(const struct bench_options *options)
{
    struct bench b[2] = {{.options = options}, {.options = options}};
    struct pairs *loads = calloc(1, sizeof *loads), *runs = calloc(1, sizeof *runs);
    struct tool_options tool = options->tool;
    struct pen_error error = {0};
    int code = TOOL_OK;
    for (int mode = 0; code == TOOL_OK && mode < 2; mode++) {
        tool.prod = mode == 1;
        code = tool_engine(&tool, false, &b[mode].engine);
    }
    if (code == TOOL_OK && (loads == NULL || runs == NULL)) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for the times");
        code = tool_fail(&error);
    } else if (code == TOOL_OK && pairs_time(b, loads, runs, &error) != PEN_OK) {
        code = tool_fail(&error);
    } else if (code == TOOL_OK) {
        pairs_show(b, loads, runs);
    }
    free(loads);
    free(runs);
    bench_fini(&b[0]);
    bench_fini(&b[1]);
    return code;
}
