#include "load_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONCURRENCY_MAX 4000.0
#define RATE_MAX        1e6

static enum pen_status refuse(const char *text, const char *why, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "--sweep %.100s: %s; write concurrency=1..64, concurrency=8..64:8 or rate=100..1000:100.",
                         text, why);
}

/* Reads a number and moves behind it. */
static bool number_take(const char **text, double *ret_value)
{
    char *end;
    if (!(**text >= '0' && **text <= '9')) {
        return false;
    }
    /* "1..64": a number ends before two dots */
    const char *dots = strstr(*text, "..");
    char copy[32];
    size_t bytes = dots ? (size_t)(dots - *text) : strcspn(*text, ":");
    if (bytes >= sizeof copy) {
        return false;
    }
    memcpy(copy, *text, bytes);
    copy[bytes] = '\0';
    *ret_value = strtod(copy, &end);
    *text += bytes;
    return *end == '\0' && isfinite(*ret_value);
}

static enum pen_status values_fill(const char *text, struct load_sweep *sweep, double to, double step,
                                   struct pen_error *reterr)
{
    for (;;) {
        double next = step > 0.0 ? sweep->values[sweep->count - 1] + step : 2.0 * sweep->values[sweep->count - 1];
        if (sweep->values[sweep->count - 1] >= to) {
            return PEN_OK;
        }
        if (sweep->count == SWEEP_STEPS_MAX) {
            return refuse(text, "that is more than 64 steps", reterr);
        }
        sweep->values[sweep->count++] = next < to ? next : to;
    }
}

enum pen_status sweep_parse(const char *text, struct load_sweep *ret_sweep, struct pen_error *reterr)
{
    const char *at = strchr(text, '=');
    double from = 0.0, to = 0.0, step = 0.0;
    struct load_sweep sweep = {.rates = strncmp(text, "rate=", 5) == 0};
    if (!sweep.rates && strncmp(text, "concurrency=", 12) != 0) {
        return refuse(text, "it sweeps neither concurrency nor rate", reterr);
    }
    at++;
    bool good = number_take(&at, &from) && strncmp(at, "..", 2) == 0;
    at += good ? 2 : 0;
    good = good && number_take(&at, &to);
    if (good && *at == ':') {
        at++;
        good = number_take(&at, &step) && step > 0.0;
    }
    if (!good || *at) {
        return refuse(text, "it is not FROM..TO or FROM..TO:STEP", reterr);
    }
    double most = sweep.rates ? RATE_MAX : CONCURRENCY_MAX;
    bool whole = sweep.rates || (from == floor(from) && to == floor(to) && step == floor(step));
    if (from <= 0.0 || to < from || to > most || !whole) {
        return refuse(text,
                      sweep.rates ? "rates are above 0, at most 10^6, and rise"
                                  : "concurrencies are whole numbers of 1 to 4000, and rise",
                      reterr);
    }
    sweep.values[sweep.count++] = from;
    enum pen_status status = values_fill(text, &sweep, to, step, reterr);
    *ret_sweep = status == PEN_OK ? sweep : *ret_sweep;
    return status;
}

enum pen_status sweep_run(const struct load_sweep *sweep, const struct load_plan *plan,
                          void (*each)(const struct load_sweep *sweep, const struct sweep_step *step),
                          struct sweep_step ret_steps[SWEEP_STEPS_MAX], struct pen_error *reterr)
{
    memset(ret_steps, 0, SWEEP_STEPS_MAX * sizeof *ret_steps);
    for (size_t i = 0; i < sweep->count; i++) {
        struct load_plan step = *plan;
        ret_steps[i] = (struct sweep_step){.value = sweep->values[i], .report = calloc(1, sizeof(struct load_report))};
        if (!ret_steps[i].report) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the report of a step.");
        }
        step.rate = sweep->rates ? sweep->values[i] : 0.0;
        step.concurrency = sweep->rates ? 1 : (int64_t)sweep->values[i];
        load_run(&step, ret_steps[i].report);
        each(sweep, &ret_steps[i]);
    }
    return PEN_OK;
}

void sweep_free(struct sweep_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(steps[i].report);
    }
}

void sweep_chart(const char *model, const struct sweep_step *steps, size_t count, struct chart_point *points,
                 struct chart *ret_chart)
{
    static const double shares[2] = {0.5, 0.99};
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < count; i++) {
            points[s * count + i] =
                (struct chart_point){.x = load_throughput(steps[i].report),
                                     .y = (double)histogram_at(&steps[i].report->latency_us, shares[s]) / 1e3};
        }
    }
    *ret_chart = (struct chart){.title = model,
                                .x_label = "answers per second",
                                .y_label = "latency in ms",
                                .series = {{"p50", points, count}, {"p99", points + count, count}},
                                .series_count = 2};
}
