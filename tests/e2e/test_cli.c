/* The command line as programs use it: one JSON object with stable keys, exit codes, drains. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "digits.h"
#include "folder.h"
#include "pool.h"

#define SAMPLE(name) PENSTOCK_SOURCE "/deploy/models/digits/samples/" name
#define ARGS(...)    ((const char *const[]){__VA_ARGS__, NULL})

static struct pool pool;

static void setup(void)
{
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, ARGS("--name", "first"));
}

static void teardown(void)
{
    pool_stop(&pool);
}

TestSuite(cli, .init = setup, .fini = teardown);

/* Runs a command that must succeed and print one JSON object and nothing else. */
static cJSON *json_of(const char *verb, const char *const argv[])
{
    char *out, *err;
    int status = pool_cli(&pool, verb, argv, &out, &err);
    cr_assert_eq(status, 0, "penstock %s ended with %d: %s", verb, status, err);
    const char *end;
    cJSON *json = cJSON_ParseWithOpts(out, &end, 0);
    cr_assert(cJSON_IsObject(json), "penstock %s --json printed: %s", verb, out);
    cr_assert_str_eq(end + strspn(end, "\n"), "", "something follows the object: %s", end);
    free(out);
    free(err);
    return json;
}

static void expect_keys(const cJSON *object, const char *where, const char *const keys[])
{
    for (size_t i = 0; keys[i]; i++) {
        cr_assert(cJSON_HasObjectItem(object, keys[i]), "%s has no key %s", where, keys[i]);
    }
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    cr_assert(cJSON_IsNumber(item), "%s is no number", key);
    return item->valuedouble;
}

static const char *text(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    cr_assert(cJSON_IsString(item), "%s is no text", key);
    return item->valuestring;
}

static const cJSON *item(const cJSON *object, const char *key, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, key), index);
}

Test(cli, submit_json_says_what_ran_where_and_what_it_cost)
{
    cJSON *json = json_of("submit", ARGS("--json", "digits", SAMPLE("03_three.png"), SAMPLE("08_eight.png")));
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobs")), 2);
    const char *labels[] = {"three", "eight"};
    for (int i = 0; i < 2; i++) {
        const cJSON *job = item(json, "jobs", i);
        expect_keys(job, "a job",
                    ARGS("file", "job", "status", "model", "version", "backend", "precision", "device", "worker",
                         "queue_us", "compute_us", "total_us", "round_trip_us", "cached", "attempts", "labels",
                         "outputs"));
        cr_assert_str_eq(text(job, "status"), "OK");
        cr_assert_str_eq(text(job, "backend"), "xnnpack");
        cr_assert_str_eq(text(job, "precision"), "f32");
        cr_assert_str_eq(text(item(job, "labels", 0), "label"), labels[i]);
        cr_assert_gt(number(item(job, "labels", 0), "score"), 0.5);
    }
    cJSON_Delete(json);
}

Test(cli, explain_says_the_same_in_the_answer_and_later)
{
    cJSON *json = json_of("submit", ARGS("--json", "--explain", "--no-cache", "digits", SAMPLE("03_three.png")));
    const cJSON *job = item(json, "jobs", 0), *told = cJSON_GetObjectItemCaseSensitive(job, "explanation");
    cr_assert(cJSON_IsObject(told), "no explanation in the answer");
    cr_assert_str_eq(text(told, "worker"), text(job, "worker"));
    cr_assert_str_eq(text(told, "batch_reason"), text(job, "batch_reason"));
    cr_assert_gt(strlen(text(told, "why_batch")), 10);
    cJSON *later = json_of("explain", ARGS("--json", text(job, "job")));
    expect_keys(later, "explain",
                ARGS("job", "model", "version", "state", "status", "tenant", "priority", "worker", "backend",
                     "why_worker", "why_batch", "why_not", "batch_reason", "batch_jobs", "batch_rows", "queue_us",
                     "expect_us", "compute_us", "total_us", "attempts", "capable", "candidates"));
    cr_assert_str_eq(text(later, "state"), "done");
    cr_assert_str_eq(text(later, "why_worker"), text(told, "why_worker"));
    cr_assert_eq(number(later, "compute_us"), number(job, "compute_us"));
    cJSON_Delete(later);
    cJSON_Delete(json);
}

Test(cli, submit_takes_an_array_file_and_gives_one_back)
{
    struct digits digits;
    char folder[FOLDER_PATH_BYTES], path[512];
    digits_load(&digits);
    folder_new(folder);
    snprintf(path, sizeof path, "%s/one.npy", folder);
    uint8_t file[128 + DIGITS_PIXELS] = "\x93NUMPY\x01";
    file[8] = 118;
    memset(file + 10, ' ', 118);
    const char *header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 8, 8, 1), }";
    memcpy(file + 10, header, strlen(header));
    file[127] = '\n';
    memcpy(file + 128, digits.images, DIGITS_PIXELS);
    file_write(path, file, sizeof file);
    cJSON *json = json_of("submit", ARGS("--json", "--output-dir", folder, "digits", path));
    cr_assert_eq((int)number(item(item(json, "jobs", 0), "labels", 0), "index"), digits.labels[0]);
    cJSON_Delete(json);
    snprintf(path, sizeof path, "%s/one.probabilities.npy", folder);
    size_t size;
    uint8_t *out = file_read(path, &size);
    cr_assert_eq(memcmp(out, "\x93NUMPY", 6), 0);
    cr_assert_not_null(strstr((char *)out + 10, "(1, 10"));
    cr_assert_eq(size % 64, 40u, "%zu bytes: ten float32 behind an aligned header", size);
    free(out);
    folder_free(folder);
    digits_free(&digits);
}

Test(cli, models_json_shows_signature_offers_and_warm_times)
{
    cJSON *json = json_of("models", ARGS("--json"));
    const cJSON *model = item(json, "models", 0);
    expect_keys(
        model, "a model",
        ARGS("name", "version", "platform", "inputs", "outputs", "labels", "queued", "running", "jobs_done", "offers"));
    cr_assert_str_eq(text(model, "name"), "digits");
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(model, "labels")), 10);
    cr_assert_str_eq(text(item(model, "inputs", 0), "name"), "image");
    const cJSON *offer = item(model, "offers", 0);
    expect_keys(offer, "an offer",
                ARGS("worker", "backend", "device", "placement", "precision", "max_batch_size", "ready", "warm"));
    cr_assert_str_eq(text(offer, "worker"), "first");
    cr_assert_gt(number(item(offer, "warm", 0), "warm_us"), 0);
    cJSON_Delete(json);
}

Test(cli, workers_json_shows_backend_state_and_flags)
{
    cJSON *json = json_of("workers", ARGS("--json"));
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "workers")), 1);
    const cJSON *worker = item(json, "workers", 0);
    expect_keys(worker, "a worker",
                ARGS("name", "host", "backend", "device", "state", "slots", "threads", "jobs_running", "jobs_done",
                     "rss_bytes", "age_us", "last_seen_us", "models", "flags"));
    cr_assert_str_eq(text(worker, "state"), "ready");
    cr_assert_str_eq(text(worker, "backend"), "xnnpack");
    cr_assert(cJSON_IsObject(cJSON_GetObjectItem(worker, "flags")));
    cJSON_Delete(json);
}

Test(cli, a_flag_of_the_worker_is_demanded_by_its_name_or_value)
{
    char *out, *err;
    cr_assert_eq(pool_cli(&pool, "workers", ARGS("--flags"), &out, &err), 0, "%s", err);
    cr_expect_not_null(strstr(out, "  backend.xnnpack              available"), "%s", out);
    free(out);
    free(err);
    const char *file = SAMPLE("03_three.png");
    cr_expect_eq(pool_cli(&pool, "submit",
                          ARGS("digits", file, "--require", "selftest.xnnpack.f32", "--require", "placement=fallback"),
                          &out, &err),
                 0, "%s", err);
    free(out);
    free(err);
    cr_expect_neq(pool_cli(&pool, "submit", ARGS("digits", file, "--require", "placement=strict"), &out, &err), 0, "%s",
                  out);
    cr_expect_not_null(strstr(out, "has all the tags and flags"), "%s%s", out, err);
    free(out);
    free(err);
}

Test(cli, submit_debug_brings_a_log_where_a_worker_allows_it)
{
    char *out, *err;
    const char *file = SAMPLE("03_three.png");
    cr_expect_neq(pool_cli(&pool, "submit", ARGS("digits", file, "--debug"), &out, &err), 0, "%s", out);
    cr_expect_not_null(strstr(out, "has all the tags and flags"), "%s%s", out, err);
    free(out);
    free(err);
    pool_add_worker(&pool, "xnnpack", NULL, ARGS("--name", "second", "--allow-debug"));
    cr_assert_eq(pool_cli(&pool, "submit", ARGS("digits", file, "--debug"), &out, &err), 0, "%s%s", out, err);
    cr_expect(strstr(out, "worker second") && strstr(out, " three\n"), "%s", out);
    cr_expect(strstr(out, "(Softmax) on xnnpack [own loop, "), "%s", out);
    cr_expect(strstr(out, "none of 10 compared nodes is beyond its tolerance\n"), "%s", out);
    free(out);
    free(err);
    cJSON *json = json_of("submit", ARGS("digits", file, "--debug", "--json"));
    const cJSON *job = item(json, "jobs", 0);
    cr_expect_not(cJSON_IsTrue(cJSON_GetObjectItem(job, "cached")), "each has a run of its own");
    cr_expect_not_null(strstr(text(job, "debug_log"), "no NaN and no infinity\n"));
    cJSON_Delete(json);
    json = json_of("submit", ARGS("digits", file, "--json"));
    cr_expect_null(cJSON_GetObjectItem(item(json, "jobs", 0), "debug_log"), "nobody asked");
    cr_expect_not(cJSON_IsTrue(cJSON_GetObjectItem(item(json, "jobs", 0), "cached")), "nor was it stored");
    cJSON_Delete(json);
}

Test(cli, load_json_has_the_documented_keys_and_true_figures)
{
    cJSON *json =
        json_of("load", ARGS("--json", "--model", "digits", "--duration", "1s", "--concurrency", "4", "--no-cache"));
    expect_keys(json, "load",
                ARGS("requests", "errors", "throughput_per_s", "latency_us", "queue_us", "compute_us", "cache_hits"));
    const cJSON *latency = cJSON_GetObjectItem(json, "latency_us");
    expect_keys(latency, "latency_us", ARGS("p50", "p90", "p99", "p999", "max"));
    expect_keys(cJSON_GetObjectItem(json, "queue_us"), "queue_us", ARGS("p50", "p99"));
    expect_keys(cJSON_GetObjectItem(json, "compute_us"), "compute_us", ARGS("p50", "p99"));
    cr_assert_eq(number(json, "errors"), 0.0);
    cr_assert_eq(number(json, "cache_hits"), 0.0);
    cr_assert_gt(number(json, "requests"), 10.0);
    cr_assert_leq(number(latency, "p50"), number(latency, "p90"));
    cr_assert_leq(number(latency, "p90"), number(latency, "max"));
    double rate = number(json, "throughput_per_s"), requests = number(json, "requests");
    cr_assert(rate > requests * 0.5 && rate < requests * 1.5, "%g requests in about 1 s are not %g per s", requests,
              rate);
    cJSON_Delete(json);
}

Test(cli, load_at_a_rate_keeps_it_and_counts_cache_hits)
{
    cJSON *json = json_of("load", ARGS("--json", "--model", "digits", "--duration", "2s", "--rate", "200"));
    cr_assert_eq(number(json, "errors"), 0.0);
    double requests = number(json, "requests");
    cr_assert(requests >= 380 && requests <= 420, "%g requests in 2 s at 200 per s", requests);
    cr_assert_gt(number(json, "cache_hits"), requests / 2);
    cJSON_Delete(json);
}

Test(cli, top_json_is_one_look_at_the_counters)
{
    cJSON *json = json_of("top", ARGS("--json"));
    expect_keys(json, "top", ARGS("stats"));
    expect_keys(cJSON_GetObjectItem(json, "stats"), "stats",
                ARGS("uptime_us", "jobs_admitted", "jobs_done", "queued", "running", "workers", "clients", "cache_kind",
                     "cache_state", "cache_hits", "rss_bytes"));
    cJSON_Delete(json);
}

Test(cli, exit_codes_tell_a_wrong_model_from_a_wrong_option_from_no_broker)
{
    char *err, nowhere[64];
    cr_assert_eq(pool_cli(&pool, "submit", ARGS("nothing", SAMPLE("00_zero.png")), NULL, &err), 1);
    cr_assert_not_null(strstr(err, "nothing"), "%s", err);
    free(err);
    cr_assert_eq(pool_cli(&pool, "submit", ARGS("--colour", "digits"), NULL, NULL), 2);
    snprintf(nowhere, sizeof nowhere, "tcp://127.0.0.1:%d", port_free());
    cr_assert_eq(process_run(ARGS("penstock", "models", "--broker", nowhere), 20000, NULL, NULL), 3);
}

Test(cli, file_that_is_no_picture_is_named)
{
    char *err;
    cr_assert_neq(
        pool_cli(&pool, "submit", ARGS("digits", PENSTOCK_SOURCE "/deploy/models/digits/config.json"), NULL, &err), 0);
    cr_assert_not_null(strstr(err, "config.json"), "%s", err);
    free(err);
}

/* A broker that was started again knows no model until its workers are back. */
Test(cli, submit_waits_for_the_first_worker)
{
    struct pool late;
    pool_start(&late, NULL);
    struct process *submit = process_start(
        ARGS("penstock", "submit", "digits", SAMPLE("03_three.png"), "--timeout", "60s", "--broker", late.clients),
        NULL);
    cr_assert(process_wait_text(late.broker, "name=\"penstock submit\"", support_slow(10000)), "%s",
              process_err(late.broker));
    cr_assert(process_wait_text(submit, "no worker is there yet", support_slow(10000)), "%s", process_err(submit));
    pool_add_worker(&late, "xnnpack", NULL, NULL);
    cr_assert_eq(process_wait(submit, support_slow(60000)), 0, "%s", process_err(submit));
    process_free(submit);
    pool_stop(&late);
}

/* What nobody could read was not answered, whatever the command found out. */
Test(cli, answer_into_a_full_disk_is_a_failure)
{
    char command[512];
    char *err;
    snprintf(command, sizeof command, PENSTOCK_BIN "/penstock models --json --broker %s > /dev/full", pool.clients);
    cr_assert_eq(process_run((const char *const[]){"/bin/sh", "-c", command, NULL}, 30000, NULL, &err), 1, "%s", err);
    cr_assert_not_null(strstr(err, "stdout"), "%s", err);
    free(err);
}

/* Also where no broker is asked. */
Test(cli, errors_are_json_with_json)
{
    static const char *const cases[][5] = {{"penstock", "keygen", "/nonexistent/key", "--json", NULL},
                                           {"penstock", "torture", "--write-model=/proc/no", "--json", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *out;
        cr_assert_eq(process_run(cases[i], 30000, &out, NULL), 1);
        cJSON *json = cJSON_Parse(out);
        cr_assert(cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(json, "error")), "%s: %s", cases[i][1], out);
        cJSON_Delete(json);
        free(out);
    }
}

Test(cli, drain_of_a_worker_ends_it_and_leaves_the_broker)
{
    pool_cli(&pool, "drain", ARGS("first"), NULL, NULL);
    cr_assert_eq(process_wait(pool.workers[0], 20000), 0, "%s", process_err(pool.workers[0]));
    cr_assert(process_alive(pool.broker));
}

Test(cli, drain_of_the_broker_ends_it_with_0)
{
    pool_cli(&pool, "drain", (const char *const[]){NULL}, NULL, NULL);
    cr_assert_eq(process_wait(pool.broker, 20000), 0, "%s", process_err(pool.broker));
}
