#include "plan_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_TRIED    12000u /* simulated jobs of a first look */
#define JOBS_JUDGED   60000u /* of a setting that is printed */
#define RATE_STEPS    10
#define WAYS_MEASURED 4096u

static const uint64_t delays_us[] = {0, 250, 500, 1000, 2000, 5000, 10000, 20000, 50000};

struct search {
    const struct curves *curves;
    const struct plan_goal *goal;
    struct plan_found *found;
    struct pen_error *reterr;
};

static enum pen_status simulate(const struct sim_setting *setting, const struct plan_goal *goal, double rate,
                                uint32_t jobs, struct sim_result *ret_result, bool *ret_holds, struct pen_error *reterr)
{
    if (!queue_sim(setting, rate, goal->share, jobs, goal->seed, ret_result)) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to simulate the pool.");
    }
    *ret_holds = ret_result->busy <= PLAN_BUSY_MAX && ret_result->at_slo_us <= goal->limit_us * (1.0 - goal->margin);
    return PEN_OK;
}

/* A quantile far out needs more jobs. */
static uint32_t jobs_for(const struct plan_goal *goal, uint32_t jobs)
{
    return goal->share > 0.99 ? 4 * jobs : jobs;
}

enum pen_status plan_judge(const struct sim_setting *setting, const struct plan_goal *goal, double rate,
                           struct sim_result *ret_result, bool *ret_holds, struct pen_error *reterr)
{
    return simulate(setting, goal, rate, jobs_for(goal, JOBS_JUDGED), ret_result, ret_holds, reterr);
}

double plan_alone_us(const struct curve *curve, const struct plan_goal *goal)
{
    double sums_us[WAYS_MEASURED];
    struct spread spread;
    uint64_t random = 1;
    for (size_t i = 0; i < WAYS_MEASURED; i++) { /* run and way are drawn independently, as in the simulation */
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double a = (double)(random >> 33) * 0x1p-31, b = ((double)i + 0.5) / (double)WAYS_MEASURED;
        sums_us[i] = curve_run_us(curve, 1, 0.0, b) + curve_way_us(curve, 0.0, a);
    }
    spread_make(sums_us, WAYS_MEASURED, &spread);
    return spread_at(&spread, goal->share);
}

/* Fewer workers would be busy all the time. */
static uint32_t workers_least(const struct sim_setting *setting, double rate)
{
    const struct curve *curve = setting->curve;
    uint32_t rows = sim_best_rows(curve, setting->batch, setting->batch);
    double row_us = curve_run_mean_us(curve, rows, 1.0) / (double)rows + curve->gap_us;
    double one_us = curve_run_mean_us(curve, 1, 1.0) + curve->gap_us;
    double least = floor(rate * fmin(row_us, one_us) / 1e6 / (double)curve->slots);
    return least < 1.0 ? 1u : least > (double)CURVE_WORKERS_MAX ? CURVE_WORKERS_MAX : (uint32_t)least;
}

static enum pen_status tries(const struct search *search, struct sim_setting *setting, uint32_t workers,
                             bool *ret_holds)
{
    struct sim_result result;
    setting->workers = workers;
    return simulate(setting, search->goal, search->goal->rate, jobs_for(search->goal, JOBS_TRIED), &result, ret_holds,
                    search->reterr);
}

/* The fewest workers with which it holds, 0 = no number up to the limit does: steps that grow, then halves. */
static enum pen_status workers_find(const struct search *search, struct sim_setting *setting, uint32_t *ret_workers)
{
    uint32_t most = search->goal->workers_max, fails = 0, at = workers_least(setting, search->goal->rate), step = 1;
    bool holds = false;
    enum pen_status status = PEN_OK;
    *ret_workers = 0;
    while (at <= most && status == PEN_OK && !holds) {
        status = tries(search, setting, at, &holds);
        if (!holds) {
            fails = at;
            at = at == most ? most + 1 : at + step < most ? at + step : most;
            step *= 2;
        }
    }
    while (holds && at - fails > 1 && status == PEN_OK) {
        uint32_t middle = fails + (at - fails) / 2;
        bool fewer = false;
        if (middle < workers_least(setting, search->goal->rate)) {
            break;
        }
        status = tries(search, setting, middle, &fewer);
        at = fewer ? middle : at;
        fails = fewer ? fails : middle;
    }
    *ret_workers = holds ? at : 0;
    return status;
}

/* Numbers that differ by less than `part` count as equal. */
static int about(double value, double part)
{
    return value > 0.0 && isfinite(value) ? (int)floor(log(value) / log(1.0 + part)) : 0;
}

/* Of settings of as many cores the one of the lower latency; of those that are about as quick the one that takes more, then the simpler one. */
static bool is_better(const struct plan_setting *a, const struct plan_setting *b)
{
    int late_a = about(a->result.at_slo_us, 0.25), late_b = about(b->result.at_slo_us, 0.25);
    int most_a = about(a->rate_max, 0.1), most_b = about(b->rate_max, 0.1);
    if (a->cores != b->cores) {
        return a->cores < b->cores;
    }
    if (late_a != late_b) {
        return late_a < late_b;
    }
    if (most_a != most_b) {
        return most_a > most_b;
    }
    return a->setting.delay_us != b->setting.delay_us ? a->setting.delay_us < b->setting.delay_us
                                                      : a->setting.batch < b->setting.batch;
}

static struct plan_setting setting_of(const struct sim_setting *setting, const struct sim_result *result,
                                      const struct plan_goal *goal)
{
    return (struct plan_setting){.setting = *setting,
                                 .result = *result,
                                 .cores = setting->workers * setting->curve->slots * setting->curve->threads,
                                 .margin = 1.0 - result->at_slo_us / goal->limit_us};
}

/* What comes closest to the limit, with as many workers as are allowed. */
static enum pen_status note_nearest(const struct search *search, struct sim_setting *setting)
{
    struct sim_result result;
    bool holds;
    setting->workers = search->goal->workers_max;
    enum pen_status status =
        simulate(setting, search->goal, search->goal->rate, JOBS_TRIED, &result, &holds, search->reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct plan_setting near = setting_of(setting, &result, search->goal);
    struct plan_found *found = search->found;
    if (!found->has_nearest || near.result.at_slo_us < found->nearest.result.at_slo_us) {
        found->nearest = near;
        found->has_nearest = true;
    }
    return PEN_OK;
}

/* One more worker where the longer look does not bear out the first. */
static enum pen_status settle(const struct search *search, struct sim_setting *setting, struct plan_setting *best,
                              bool *has_best)
{
    struct sim_result result;
    bool holds = false;
    enum pen_status status = PEN_OK;
    for (unsigned i = 0; i < 3 && !holds && status == PEN_OK && setting->workers <= search->goal->workers_max; i++) {
        status = plan_judge(setting, search->goal, search->goal->rate, &result, &holds, search->reterr);
        setting->workers += !holds;
    }
    if (status != PEN_OK || !holds) {
        return status;
    }
    struct plan_setting found = setting_of(setting, &result, search->goal);
    if (!*has_best || is_better(&found, best)) {
        *best = found;
        *has_best = true;
    }
    return PEN_OK;
}

/* The best delay for this batch size. */
static enum pen_status try_batch(const struct search *search, const struct curve *curve, uint32_t batch)
{
    struct plan_setting best;
    bool has_best = false;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < sizeof delays_us / sizeof *delays_us && status == PEN_OK; i++) {
        struct sim_setting setting = {.curve = curve, .batch = batch, .delay_us = delays_us[i]};
        uint32_t workers = 0;
        if (delays_us[i] && (batch == 1 || (double)delays_us[i] > search->goal->limit_us / 2.0)) {
            break;
        }
        status = workers_find(search, &setting, &workers);
        setting.workers = workers;
        if (status == PEN_OK && workers) {
            status = settle(search, &setting, &best, &has_best);
        } else if (status == PEN_OK && delays_us[i] == 0) {
            status = note_nearest(search, &setting);
        }
    }
    if (status == PEN_OK && has_best && search->found->count < PLAN_SETTINGS_MAX) {
        search->found->settings[search->found->count++] = best;
    }
    return status;
}

static enum pen_status try_curve(const struct search *search, const struct curve *curve)
{
    double alone_us = plan_alone_us(curve, search->goal);
    struct plan_found *found = search->found;
    enum pen_status status = PEN_OK;
    found->alone_us = found->alone_us > 0.0 && found->alone_us < alone_us ? found->alone_us : alone_us;
    if (alone_us > search->goal->limit_us) {
        return PEN_OK; /* no number of workers makes a job quicker than alone */
    }
    for (size_t i = 0; i < curve->sizes_count && status == PEN_OK; i++) {
        uint32_t batch = curve->sizes[i].rows;
        if (batch == 1 || sim_best_rows(curve, batch, batch) > 1) { /* else it would be as without batches */
            status = try_batch(search, curve, batch);
        }
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    const struct plan_setting *x = a, *y = b;
    return is_better(x, y) ? -1 : is_better(y, x) ? 1 : 0;
}

/* The largest rate at which it still holds. */
static enum pen_status headroom(const struct search *search, struct plan_setting *setting)
{
    double low = search->goal->rate, high = PLAN_RATE_MOST * low;
    enum pen_status status = PEN_OK;
    for (int i = 0; i < RATE_STEPS && status == PEN_OK; i++) {
        double middle = (low + high) / 2.0;
        struct sim_result result;
        bool holds = false;
        status = simulate(&setting->setting, search->goal, middle, jobs_for(search->goal, JOBS_TRIED), &result, &holds,
                          search->reterr);
        low = holds ? middle : low;
        high = holds ? high : middle;
    }
    setting->rate_max = low;
    return status;
}

enum pen_status plan_search(const struct curves *curves, const struct plan_goal *goal, struct plan_found *ret_found,
                            struct pen_error *reterr)
{
    struct search search = {.curves = curves, .goal = goal, .found = ret_found, .reterr = reterr};
    enum pen_status status = PEN_OK;
    memset(ret_found, 0, sizeof *ret_found);
    for (size_t i = 0; i < curves->count && status == PEN_OK; i++) {
        status = try_curve(&search, &curves->curves[i]);
    }
    for (size_t i = 0; i < ret_found->count && status == PEN_OK; i++) {
        status = headroom(&search, &ret_found->settings[i]);
    }
    qsort(ret_found->settings, ret_found->count, sizeof *ret_found->settings, compare);
    return status;
}
