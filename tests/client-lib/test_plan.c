/* The plan's parts: curves and their file, the simulated queue against theory, the broker's rules for batches, the search, config.json. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "batch.h"
#include "curve.h"
#include "folder.h"
#include "plan_config.h"
#include "plan_search.h"
#include "plan_show.h"

static struct spread always(double us)
{
    struct spread spread = {.count = 100};
    for (unsigned i = 0; i < SPREAD_POINTS; i++) {
        spread.us[i] = us;
    }
    spread_settle(&spread);
    return spread;
}

/* A run of n rows takes fixed_us + n * row_us; nothing else takes time. */
static void curve_make(struct curve *curve, double fixed_us, double row_us, uint32_t rows_max)
{
    *curve = (struct curve){.backend = "xnnpack", .slots = 1, .threads = 1, .workers = 1};
    curve->way_alone = curve->way_all = always(0.0);
    for (uint32_t rows = 1; rows <= rows_max; rows *= 2) {
        struct spread us = always(fixed_us + row_us * rows);
        curve->sizes[curve->sizes_count++] = (struct curve_size){.rows = rows, .alone = us, .all = us};
    }
}

/* ---- curves ---- */

Test(plan, a_spread_keeps_middle_tail_and_mean)
{
    double samples[1000];
    struct spread spread;
    for (int i = 0; i < 1000; i++) {
        samples[i] = 1000 - i; /* 1..1000, in no good order */
    }
    spread_make(samples, 1000, &spread);
    cr_assert_float_eq(spread_at(&spread, 0.5), 500.5, 2.0);
    cr_assert_float_eq(spread_at(&spread, 0.99), 990.0, 2.0);
    cr_assert_float_eq(spread.mean_us, 500.5, 2.0);
}

Test(plan, a_stall_counts_for_all_jobs_that_would_have_met_it)
{
    double samples[300];
    struct spread spread;
    for (int i = 0; i < 100; i++) {
        samples[i] = i == 50 ? 1000.0 : 10.0; /* a closed loop meets it once in 100 jobs; it lasts half of the time */
    }
    spread_make_unbidden(samples, 100, 300, 10.0, &spread);
    cr_assert_eq(spread.count, 100);
    cr_assert_float_eq(spread_at(&spread, 0.75), 500.0, 25.0);
    cr_assert_lt(spread_at(&spread, 0.4), 11.0);
}

Test(plan, a_busy_machine_is_noticed)
{
    struct curve curve;
    curve_make(&curve, 1000.0, 0.0, 1);
    cr_assert(!curve_is_noisy(&curve));
    curve.sizes[0].alone.us[SPREAD_POINTS - 1] = curve.sizes[0].alone.us[SPREAD_POINTS - 2] = 9000.0;
    cr_assert(!curve_is_noisy(&curve), "one run in a thousand");
    for (unsigned i = SPREAD_POINTS - 6; i < SPREAD_POINTS; i++) {
        curve.sizes[0].alone.us[i] = 9000.0;
    }
    cr_assert(curve_is_noisy(&curve));
}

Test(plan, curves_are_interpolated_and_grow_beyond_the_last_size)
{
    struct curve curve;
    curve_make(&curve, 100.0, 10.0, 8);
    cr_assert_float_eq(curve_run_us(&curve, 3, 0.5, 0.7), 130.0, 1e-6);
    cr_assert_float_eq(curve_run_us(&curve, 16, 1.0, 0.7), 2 * 180.0, 1e-6);
    curve.sizes[0].all = always(220.0);
    cr_assert_float_eq(curve_run_us(&curve, 1, 0.5, 0.7), 165.0, 1e-6);
}

Test(plan, saved_curves_are_read_back_and_broken_ones_refused)
{
    char dir[FOLDER_PATH_BYTES], file[FOLDER_PATH_BYTES + 16];
    struct curves *curves = calloc(1, sizeof *curves), *again = calloc(1, sizeof *again);
    struct pen_error error = {.text = ""};
    folder_new(dir);
    snprintf(file, sizeof file, "%s/curves", dir);
    snprintf(curves->model, sizeof curves->model, "net");
    curves->version = 3;
    curves->batched = true;
    curve_make(&curves->curves[curves->count++], 100.0, 10.0, 8);
    cr_assert_eq(curves_save(curves, file, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(curves_load(file, again, &error), PEN_OK, "%s", error.text);
    cr_assert(again->count == 1 && again->batched && again->version == 3 && again->curves[0].sizes_count == 4);
    cr_assert_float_eq(curve_run_mean_us(&again->curves[0], 5, 1.0), 150.0, 0.5);
    size_t bytes;
    char *text = file_read(file, &bytes), *us = strstr(text, "\"us\":[");
    cr_assert(us != NULL);
    us[6] = '9'; /* the next one is less */
    file_write(file, text, bytes);
    cr_assert_eq(curves_load(file, again, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "41 times"), "%s", error.text);
    file_write(file, "[]", 2);
    cr_assert_eq(curves_load(file, again, &error), PEN_ERR_INVALID);
    cr_assert_eq(curves_load("/nowhere", again, &error), PEN_ERR_NOT_FOUND);
    free(text);
    free(curves);
    free(again);
    folder_free(dir);
}

/* ---- the queue ---- */

/* M/D/1: the share of jobs that wait at most x < service is (1 - load) e^(rate x) (Erlang 1909). */
Test(plan, one_server_waits_as_theory_says)
{
    struct curve curve;
    struct sim_result result;
    curve_make(&curve, 0.0, 1000.0, 1);
    struct sim_setting setting = {.curve = &curve, .workers = 1, .batch = 1};
    double share = 0.5 * exp(0.5 * 0.5); /* load 0.5, x half a service */
    cr_assert(queue_sim(&setting, 500.0, share, 200000, 7, &result));
    cr_assert_float_eq(result.busy, 0.5, 0.01);
    cr_assert_float_eq(result.at_slo_us, 1500.0, 45.0, "%g", result.at_slo_us);
    cr_assert_float_eq(result.batch_mean, 1.0, 1e-9);
}

Test(plan, more_servers_wait_less_and_an_overloaded_pool_is_told)
{
    struct curve curve;
    struct sim_result one, four, over;
    curve_make(&curve, 0.0, 1000.0, 1);
    struct sim_setting setting = {.curve = &curve, .workers = 1, .batch = 1};
    cr_assert(queue_sim(&setting, 700.0, 0.99, 50000, 7, &one));
    setting.workers = 4;
    cr_assert(queue_sim(&setting, 2800.0, 0.99, 50000, 7, &four));
    cr_assert(four.at_slo_us < one.at_slo_us / 2.0, "%g %g", four.at_slo_us, one.at_slo_us);
    cr_assert(queue_sim(&setting, 8000.0, 0.99, 200000, 7, &over));
    cr_assert(over.busy > 0.99 && !isfinite(over.at_slo_us));
}

Test(plan, batches_carry_what_single_jobs_cannot)
{
    struct curve curve;
    struct sim_result single, batched;
    curve_make(&curve, 1000.0, 50.0, 16);
    struct sim_setting setting = {.curve = &curve, .workers = 1, .batch = 1};
    cr_assert(queue_sim(&setting, 3000.0, 0.99, 100000, 7, &single));
    setting.batch = 16;
    cr_assert(queue_sim(&setting, 3000.0, 0.99, 100000, 7, &batched));
    cr_assert(single.busy > 0.99 && batched.busy < 0.5 && batched.batch_mean > 2.0 && batched.at_slo_us < 6000.0);
}

/* The rules are the broker's own: both are asked about the same random moments. */
Test(plan, the_rules_for_batches_are_the_brokers)
{
    unsigned compared = 0, differ = 0;
    srand(3);
    for (int i = 0; i < 20000; i++) {
        uint32_t batch = 1u << (rand() % 6), waiting = 1 + (uint32_t)(rand() % 80), vain = (uint32_t)(rand() % 6);
        uint64_t delay_us = (uint64_t)(rand() % 3) * 1000, oldest_us = 1000000,
                 now_us = oldest_us + (uint64_t)(rand() % 3000);
        struct curve curve;
        struct latency_model latency = {.count = 0};
        curve_make(&curve, rand() % 500, 1 + rand() % 500, batch);
        for (size_t s = 0; s < curve.sizes_count; s++) {
            uint32_t rows = curve.sizes[s].rows;
            latency_seed(&latency, rows, (uint64_t)curve.sizes[s].all.mean_us);
            latency_learn(&latency, rows, (uint64_t)curve.sizes[s].all.mean_us, 1);
        }
        struct batch_rules rules = {.rows_max = batch, .delay_us = delay_us, .latency = &latency};
        struct batch_facts facts = {.now_us = now_us,
                                    .rows_waiting = waiting,
                                    .oldest_us = oldest_us,
                                    .deadline_us = UINT64_MAX,
                                    .solo_batches = vain};
        struct sim_rules own = {
            .curve = &curve, .batch = batch, .delay_us = delay_us, .target = sim_best_rows(&curve, batch, batch)};
        double wake_us;
        struct batch_choice choice = batch_close(&rules, &facts);
        uint32_t rows = sim_close(&own, waiting, (double)now_us, (double)oldest_us, vain, &wake_us);
        compared++;
        differ += rows != choice.rows || (rows == 0 && (uint64_t)wake_us != choice.wake_us);
    }
    cr_assert_leq(differ, compared / 200, "%u of %u: more than roundings at the edge", differ, compared);
}

/* ---- the search ---- */

static struct plan_goal goal_of(double limit_us, double rate)
{
    return (struct plan_goal){
        .share = 0.99, .limit_us = limit_us, .rate = rate, .margin = 0.2, .workers_max = 32, .seed = 1};
}

Test(plan, the_fewest_workers_that_hold_are_found)
{
    struct curves *curves = calloc(1, sizeof *curves);
    struct plan_found *found = calloc(1, sizeof *found);
    curves->batched = false;
    curve_make(&curves->curves[curves->count++], 0.0, 5000.0, 1);
    struct plan_goal goal = goal_of(20000.0, 500.0);
    cr_assert_eq(plan_search(curves, &goal, found, NULL), PEN_OK);
    cr_assert_eq(found->count, 1);
    struct sim_setting setting = found->settings[0].setting;
    struct sim_result result;
    bool holds;
    cr_assert(setting.workers >= 3 && setting.workers <= 5, "2.5 would be busy all the time: %u", setting.workers);
    cr_assert_eq(plan_judge(&setting, &goal, goal.rate, &result, &holds, NULL), PEN_OK);
    cr_assert(holds && result.at_slo_us <= 16000.0, "the margin stays free");
    cr_assert_float_eq(found->settings[0].margin, 1.0 - result.at_slo_us / 20000.0, 1e-9);
    setting.workers--;
    cr_assert_eq(plan_judge(&setting, &goal, goal.rate, &result, &holds, NULL), PEN_OK);
    cr_assert(!holds, "one less does not hold");
    cr_assert(found->settings[0].rate_max >= 500.0 && found->settings[0].rate_max < 1000.0);
    free(curves);
    free(found);
}

Test(plan, batches_are_chosen_where_they_save_workers)
{
    struct curves *curves = calloc(1, sizeof *curves);
    struct plan_found *found = calloc(1, sizeof *found);
    curve_make(&curves->curves[curves->count++], 4000.0, 200.0, 16);
    struct plan_goal goal = goal_of(40000.0, 1500.0);
    cr_assert_eq(plan_search(curves, &goal, found, NULL), PEN_OK);
    cr_assert(found->count >= 2 && found->settings[0].setting.batch > 1);
    cr_assert(found->settings[0].setting.workers < found->settings[found->count - 1].setting.workers);
    free(curves);
    free(found);
}

Test(plan, what_no_setting_holds_is_refused_with_the_reason)
{
    struct curves *curves = calloc(1, sizeof *curves);
    struct plan_found *found = calloc(1, sizeof *found);
    char text[512];
    curve_make(&curves->curves[curves->count++], 0.0, 2300.0, 1);
    struct plan_goal goal = goal_of(1000.0, 10.0);
    cr_assert_eq(plan_search(curves, &goal, found, NULL), PEN_OK);
    cr_assert_eq(found->count, 0);
    cr_assert_str_eq(plan_refusal(&goal, found, text, sizeof text),
                     "no number of workers holds p99 below 1.00 ms: one job alone takes 2.30 ms at p99.");
    goal = goal_of(10000.0, 1e5);
    cr_assert_eq(plan_search(curves, &goal, found, NULL), PEN_OK);
    cr_assert(found->count == 0 && found->has_nearest);
    cr_assert(strstr(plan_refusal(&goal, found, text, sizeof text), "at most 32 workers"), "%s", text);
    goal = goal_of(10000.0, 100.0);
    cr_assert_eq(plan_search(curves, &goal, found, NULL), PEN_OK);
    cr_assert_str_eq(plan_refusal(&goal, found, text, sizeof text), "");
    free(curves);
    free(found);
}

/* ---- config.json ---- */

static char models[FOLDER_PATH_BYTES];

static void config_write(const char *name, const char *config)
{
    char path[FOLDER_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s/1", models, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/config.json", models, name);
    if (config) {
        file_write(path, config, strlen(config));
        chmod(path, 0640);
    }
}

static cJSON *config_of(const char *path)
{
    size_t bytes;
    char *text = file_read(path, &bytes);
    cJSON *json = cJSON_Parse(text);
    cr_assert(cJSON_IsObject(json), "%s", text);
    free(text);
    return json;
}

static double number_in(const cJSON *json, const char *a, const char *b)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(b ? cJSON_GetObjectItem(json, a) : json, b ? b : a));
}

static void models_begin(void)
{
    folder_new(models);
}

static void models_end(void)
{
    folder_free(models);
}

TestSuite(plan_config, .init = models_begin, .fini = models_end);

static const uint32_t sizes[] = {1, 2, 8};
static const struct plan_values eight = {
    .batched = true, .batch = 8, .delay_us = 2000, .slots = 2, .warm = sizes, .warm_count = 3};

Test(plan_config, what_stands_there_stays)
{
    char path[PLAN_PATH_BYTES];
    struct stat info;
    struct pen_error error = {.text = ""};
    config_write("net", "{\"platform\": \"onnx\", \"max_batch_size\": 16, \"input\": {\"preprocess\": {\"scale\": "
                        "[0.00392156862745098]}},"
                        "\"dynamic_batching\": {\"preferred_batch_size\": [4, 16], \"priority_levels\": 3, "
                        "\"max_queue_delay_microseconds\": 5},"
                        "\"model_warmup\": [{\"batch_size\": 1}, {\"batch_size\": 16}]}");
    cr_assert_eq(plan_config_apply(models, "net", 1, &eight, path, &error), PEN_OK, "%s", error.text);
    cJSON *json = config_of(path);
    cr_assert_eq(number_in(json, "max_batch_size", NULL), 8);
    cr_assert_eq(number_in(json, "dynamic_batching", "max_queue_delay_microseconds"), 2000);
    cr_assert_eq(number_in(json, "dynamic_batching", "priority_levels"), 3);
    cr_assert(!cJSON_HasObjectItem(cJSON_GetObjectItem(json, "dynamic_batching"), "preferred_batch_size"));
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "model_warmup")), 3, "the sizes of the plan");
    cr_assert_eq(number_in(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "instance_group"), 0), "count", NULL), 2);
    const cJSON *scale =
        cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "input"), "preprocess"), "scale");
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetArrayItem(scale, 0)), 0.00392156862745098);
    cr_assert(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640, "its mode, too");
    cJSON_Delete(json);
}

Test(plan_config, a_link_stays_a_link_and_the_inner_file_goes_first)
{
    char path[PLAN_PATH_BYTES], inner[FOLDER_PATH_BYTES + 64], real[FOLDER_PATH_BYTES + 64];
    struct stat info;
    config_write("net", "{}");
    snprintf(real, sizeof real, "%s/elsewhere.json", models);
    snprintf(inner, sizeof inner, "%s/net/1/config.json", models);
    file_write(real, "{\"platform\": \"onnx\"}", 20);
    cr_assert_eq(symlink(real, inner), 0);
    cr_assert_eq(plan_config_apply(models, "net", 1, &eight, path, NULL), PEN_OK);
    cr_assert_str_eq(path, inner);
    cr_assert(lstat(inner, &info) == 0 && S_ISLNK(info.st_mode));
    cJSON *json = config_of(real);
    cr_assert_eq(number_in(json, "max_batch_size", NULL), 8);
    cr_assert(cJSON_HasObjectItem(json, "platform"));
    cJSON_Delete(json);
}

Test(plan_config, what_cannot_be_written_is_left_alone)
{
    char path[PLAN_PATH_BYTES], pbtxt[FOLDER_PATH_BYTES + 64];
    struct pen_error error = {.text = ""};
    cr_assert_eq(plan_config_apply(models, "none", 1, &eight, path, &error), PEN_ERR_NOT_FOUND);
    config_write("broken", "{\"max_batch_size\": ");
    cr_assert_eq(plan_config_apply(models, "broken", 1, &eight, path, &error), PEN_ERR_CORRUPT);
    config_write("triton", NULL);
    snprintf(pbtxt, sizeof pbtxt, "%s/triton/config.pbtxt", models);
    file_write(pbtxt, "max_batch_size: 4", 17);
    cr_assert_eq(plan_config_apply(models, "triton", 1, &eight, path, &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "max_batch_size: 8"), "%s", error.text);
    config_write("fresh", NULL);
    cr_assert_eq(plan_config_apply(models, "fresh", 1, &eight, path, &error), PEN_OK, "%s", error.text);
    cJSON *json = config_of(path);
    cr_assert_eq(number_in(json, "max_batch_size", NULL), 8);
    cJSON_Delete(json);
}

Test(plan_config, a_copy_leaves_the_original_as_it_is)
{
    char to[FOLDER_PATH_BYTES + 16], labels[FOLDER_PATH_BYTES + 64], copied[FOLDER_PATH_BYTES + 64];
    struct pen_error error = {.text = ""};
    size_t bytes;
    config_write(
        "net",
        "{\"max_batch_size\": 16, \"model_warmup\": [{\"batch_size\": 4, \"inputs\": {\"x\": {\"dims\": [7]}}}]}");
    snprintf(labels, sizeof labels, "%s/net/labels.txt", models);
    file_write(labels, "a\nb\n", 4);
    snprintf(to, sizeof to, "%s/copy", models);
    for (int i = 0; i < 2; i++) { /* the second time into what is there */
        cr_assert_eq(plan_config_copy(models, "net", to, &eight, &error), PEN_OK, "%s", error.text);
    }
    char *text = file_read(labels, &bytes);
    cr_assert_eq(bytes, 4, "a copy that is made again does not empty the original");
    free(text);
    snprintf(copied, sizeof copied, "%s/net/config.json", to);
    cJSON *json = config_of(copied), *warm = cJSON_GetObjectItem(json, "model_warmup");
    cr_assert(cJSON_GetArraySize(warm) == 3 && cJSON_HasObjectItem(cJSON_GetArrayItem(warm, 2), "inputs"));
    cJSON_Delete(json);
    snprintf(copied, sizeof copied, "%s/net/config.json", models);
    json = config_of(copied);
    cr_assert_eq(number_in(json, "max_batch_size", NULL), 16);
    cJSON_Delete(json);
    plan_config_remove(to, "net");
    cr_assert(access(to, F_OK) != 0 && access(labels, F_OK) == 0);
}
