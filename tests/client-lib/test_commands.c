/* The `penstock` program against a broker of the test's own: what it prints, what it exits with, and that each option has an effect. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "fake_broker.h"
#include "folder.h"
#include "npy.h"
#include "process.h"

#define ARGS_MAX 24

static struct fake_broker *fake;
static char *out, *err; /* of the last run */
static char dir[FOLDER_PATH_BYTES], picture[FOLDER_PATH_BYTES + 16];

/* One 8x8 BMP whose pixel 13 is the brightest. */
static void setup(void)
{
    uint8_t bmp[54 + 8 * 24] = {'B', 'M', [10] = 54, [14] = 40, [18] = 8, [22] = 8, [26] = 1, [28] = 24};
    for (int c = 0; c < 3; c++) {
        bmp[54 + (7 - 13 / 8) * 24 + 13 % 8 * 3 + c] = 255; /* rows from the bottom up */
    }
    fake = fake_start(NULL, (struct fake_behaviour){0});
    folder_new(dir);
    snprintf(picture, sizeof picture, "%s/dot.bmp", dir);
    file_write(picture, bmp, sizeof bmp);
}

static void teardown(void)
{
    free(out);
    free(err);
    folder_free(dir);
    if (fake) {
        fake_stop(fake);
    }
}

TestSuite(command, .init = setup, .fini = teardown);

static int run_argv(const char *const argv[])
{
    free(out);
    free(err);
    out = err = NULL;
    return process_run(argv, 30000, &out, &err);
}

/* Runs `penstock VERB ... --broker FAKE`. */
static int run(const char *const args[])
{
    const char *argv[ARGS_MAX] = {"penstock"};
    size_t count = 1;
    for (; *args; args++) {
        argv[count++] = *args;
    }
    argv[count++] = "--broker";
    argv[count] = fake_endpoint(fake);
    return run_argv(argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static cJSON *json_out(void)
{
    cJSON *json = cJSON_Parse(out);
    cr_assert(cJSON_IsObject(json), "no JSON object: %s%s", out, err);
    return json;
}

static double number_at(const cJSON *json, const char *a, const char *b)
{
    const cJSON *item = cJSON_GetObjectItem(json, a);
    item = b ? cJSON_GetObjectItem(item, b) : item;
    cr_assert(cJSON_IsNumber(item), "%s.%s is missing: %s", a, b ? b : "", out);
    return item->valuedouble;
}

Test(command, submit_prints_the_answer_and_where_it_came_from)
{
    cr_assert_eq(RUN("submit", "echo", picture), 0, "%s", err);
    cr_assert(strstr(out, "dot.bmp") && strstr(out, "l13"), "%s", out);
    cr_assert(strstr(out, "echo:3") && strstr(out, "backend echo") && strstr(out, "compute 7 us"), "%s", out);
}

Test(command, submit_json_has_stable_keys)
{
    cr_assert_eq(RUN("submit", "echo", picture, picture, "--json", "--top", "2"), 0, "%s", err);
    cJSON *json = json_out(), *jobs = cJSON_GetObjectItem(json, "jobs"), *job = cJSON_GetArrayItem(jobs, 1);
    cr_assert_eq(cJSON_GetArraySize(jobs), 2);
    const char *const keys[] = {
        "file",      "job",      "status",  "error",        "model",         "version",        "backend",  "precision",
        "device",    "worker",   "library", "batch_reason", "batch_size",    "attempts",       "queue_us", "compute_us",
        "worker_us", "total_us", "cached",  "labels",       "round_trip_us", "retry_after_us", "outputs"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        cr_assert(cJSON_HasObjectItem(job, keys[i]), "no \"%s\"", keys[i]);
    }
    cJSON *labels = cJSON_GetObjectItem(job, "labels");
    cr_assert_eq(cJSON_GetArraySize(labels), 2, "--top");
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(labels, 0), "label")), "l13");
    cJSON_Delete(json);
}

Test(command, submit_passes_every_option_on)
{
    cr_assert_eq(RUN("submit", "echo", picture, "--backend=xnnpack", "--precision=f32", "--priority=4", "--no-cache",
                     "--explain", "--deadline=70s", "--tag=a", "--tag=b", "--outputs=y", "--parameter=k=3",
                     "--tenant=acme", "--sequence=5"),
                 0, "%s", err);
    struct fake_seen seen = fake_see(fake);
    cr_assert_str_eq(seen.backend, "xnnpack");
    cr_assert_str_eq(seen.tenant, "acme");
    cr_assert_eq(seen.last_submit.precision, PRECISION_F32);
    cr_assert_eq(seen.last_submit.priority, 4);
    cr_assert_eq(seen.last_submit.sequence_id, 5);
    cr_assert((seen.last_submit.flags & FRAME_FLAG_NO_CACHE) != 0);
    cr_assert(seen.last_submit.deadline_us > 50000000 && seen.last_submit.deadline_us <= 70000000);
    cr_assert(seen.explain);
    cr_assert(seen.tags == 2 && seen.outputs == 1 && seen.parameters == 1);
}

Test(command, submit_writes_npy_and_takes_it_back)
{
    char folder[FOLDER_PATH_BYTES + 16], file[FOLDER_PATH_BYTES + 64], item[FOLDER_PATH_BYTES + 80];
    snprintf(folder, sizeof folder, "%s/out", dir);
    snprintf(file, sizeof file, "%s/dot.image.npy", folder);
    snprintf(item, sizeof item, "image=%s", file);
    cr_assert_eq(RUN("submit", "echo", picture, "--output-dir", folder), 0, "%s", err);
    size_t size = 0;
    struct pen_tensor t;
    uint8_t *bytes = file_read(file, &size);
    cr_assert_eq(npy_view(bytes, size, file, &t, NULL), PEN_OK);
    cr_assert(t.rank == 4 && t.dims[1] == 8 && t.dtype == PEN_DTYPE_U8);
    cr_assert_eq(((const uint8_t *)t.data)[13], 255);
    free(bytes);
    cr_assert_eq(RUN("submit", "echo", "--input", item), 0, "%s", err);
    cr_assert(strstr(out, "l13") != NULL, "%s", out);
}

Test(command, submit_writes_no_output_over_another)
{
    char folder[FOLDER_PATH_BYTES + 16];
    snprintf(folder, sizeof folder, "%s/none", dir);
    cr_assert_eq(RUN("submit", "echo", picture, "a/x.png", "x.jpg", "--output-dir", folder), 2, "%s", err);
    cr_assert(strstr(err, "a/x.png") && strstr(err, "x.jpg") && strstr(err, "--output-dir"), "%s", err);
    cr_assert_neq(access(folder, F_OK), 0, "nothing is done");
    cr_assert_eq(RUN("submit", "echo", picture, picture), 0, "without files of outputs they may: %s", err);
}

Test(command, exit_codes_say_what_went_wrong)
{
    cr_assert_eq(RUN("submit"), 2);
    cr_assert_eq(RUN("submit", "echo"), 2);
    cr_assert_eq(RUN("submit", "echo", picture, "--no-such-option"), 2);
    cr_assert_eq(RUN("no-such-command"), 2);
    cr_assert_eq(RUN("submit", "other", picture), 1);
    cr_assert(strstr(err, "NOT_FOUND") && strstr(err, "other"), "%s", err);
    cr_assert_eq(RUN("submit", "echo", "/nowhere/x.png"), 1);
    cr_assert(strstr(err, "/nowhere/x.png") != NULL, "%s", err);
    cr_assert_eq(RUN("submit", "echo", picture, "--model-version", "9"), 1);
    fake_set(fake, (struct fake_behaviour){.job_status = PEN_ERR_SHAPE});
    cr_assert_eq(RUN("submit", "echo", picture), 1);
    cr_assert(strstr(out, "SHAPE: the test's worker failed.") != NULL, "%s", out);
    fake_set(fake, (struct fake_behaviour){.job_status = PEN_ERR_UNAVAILABLE});
    cr_assert_eq(RUN("submit", "echo", picture), 3);
    cr_assert_eq(RUN("cancel"), 2);
    cr_assert_eq(RUN("cancel", "nonsense"), 2);
    cr_assert_eq(RUN("explain"), 2);
    cr_assert_eq(RUN("explain", "nonsense"), 2);
    cr_assert_eq(RUN("drain", "nobody"), 1);
    cr_assert_eq(RUN("load"), 2);
    fake_set(fake, (struct fake_behaviour){.mute = true});
    cr_assert_eq(RUN("models", "--timeout", "200ms"), 3);
    cr_assert(strstr(err, "penstock-broker") != NULL, "it says what to do: %s", err);
    cr_assert_eq(RUN("models", "--timeout", "200ms", "--json"), 3);
    cJSON *json = json_out();
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "error"), "code")),
                     "UNAVAILABLE");
    cJSON_Delete(json);
}

Test(command, lists_and_counters_as_text_and_json)
{
    const struct {
        const char *verb, *text, *key;
    } cases[] = {{"models", "echo:2", "models"}, {"workers", "worker-1", "workers"}};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(RUN(cases[i].verb), 0, "%s", err);
        cr_assert(strstr(out, cases[i].text) != NULL, "%s", out);
        cr_assert_eq(RUN(cases[i].verb, "--json"), 0);
        cJSON *json = json_out();
        cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, cases[i].key)), 1);
        cJSON_Delete(json);
    }
    cr_assert_eq(RUN("models", "other"), 1);
    cr_assert_eq(RUN("top", "--once"), 0);
    cr_assert(strstr(out, "echo:2") && strstr(out, "worker-1") && strstr(out, "done 42"), "%s", out);
    cr_assert_eq(RUN("top", "--json"), 0);
    cJSON *json = json_out();
    cr_assert_eq(number_at(json, "stats", "jobs_done"), 42);
    cJSON_Delete(json);
}

Test(command, drain_and_cancel_reach_the_broker)
{
    cr_assert_eq(RUN("drain"), 0);
    cr_assert_str_eq(fake_see(fake).verb, "drain");
    cr_assert_str_eq(fake_see(fake).argument, "");
    cr_assert_eq(RUN("drain", "worker-1", "--json"), 0);
    cr_assert_str_eq(fake_see(fake).argument, "worker-1");
    cr_assert_eq(RUN("explain", "00000000000000ff-7"), 0, "%s", err);
    cr_assert_str_eq(fake_see(fake).verb, "explain");
    cr_assert(strstr(out, "00000000000000ff-7") && strstr(out, "it was the only one"), "%s", out);
    cr_assert_eq(RUN("explain", "00000000000000ff-7", "--json"), 0);
    cJSON *explained = json_out();
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(explained, "candidates")), 1);
    cJSON_Delete(explained);
    cr_assert_eq(RUN("cancel", "00000000000000ff-7"), 0);
    cr_assert_str_eq(fake_see(fake).verb, "cancel");
    cr_assert_str_eq(fake_see(fake).argument, "00000000000000ff-7");
}

static cJSON *load(const char *a, const char *b)
{
    int status = a ? RUN("load", "--model=echo", "--duration=300ms", "--json", a, b)
                   : RUN("load", "--model=echo", "--duration=300ms", "--json");
    cr_assert_eq(status, 0, "%s%s", out, err);
    return json_out();
}

Test(command, load_json_has_exactly_its_keys)
{
    cJSON *json = load(NULL, NULL);
    const char *const keys[] = {"requests",   "errors",     "throughput_per_s", "latency_us",  "queue_us",
                                "compute_us", "cache_hits", "batch_mean",       "slot_us_mean"};
    for (size_t i = 0; i < 9; i++) {
        cr_assert(cJSON_HasObjectItem(json, keys[i]), "no \"%s\"", keys[i]);
    }
    cr_assert_eq(cJSON_GetArraySize(json), 9);
    const char *const quantiles[] = {"p50", "p90", "p99", "p999", "max"};
    double last = 0;
    for (size_t i = 0; i < 5; i++) {
        double value = number_at(json, "latency_us", quantiles[i]);
        cr_assert(value >= last, "quantiles rise");
        last = value;
    }
    cr_assert_eq(number_at(json, "compute_us", "p50"), 7);
    cr_assert_gt(number_at(json, "requests", NULL), 10);
    cr_assert_eq(number_at(json, "errors", NULL), 0);
    cJSON_Delete(json);
}

Test(command, load_open_loop_keeps_its_rate_and_counts_from_the_due_time)
{
    cJSON *json = load("--rate", "100");
    cr_assert_eq(number_at(json, "requests", NULL), 30);
    cJSON_Delete(json);
    fake_set(fake, (struct fake_behaviour){.delay_us = 20000}); /* 50 per second at most: a queue builds up */
    json = load("--rate", "100");
    cr_assert_eq(number_at(json, "requests", NULL), 30);
    cr_assert_gt(number_at(json, "latency_us", "max"), 250000, "the wait of a late job counts");
    cJSON_Delete(json);
    json = load("--concurrency", "1");
    cr_assert_lt(number_at(json, "latency_us", "p50"), 200000, "the closed loop waits for each");
    cJSON_Delete(json);
}

Test(command, load_sweeps_draw_and_tell_each_step)
{
    char svg[FOLDER_PATH_BYTES + 16];
    size_t bytes;
    snprintf(svg, sizeof svg, "%s/sweep.svg", dir);
    cr_assert_eq(RUN("load", "echo", "--duration=50ms", "--sweep=concurrency=1..4", "--svg", svg), 0, "%s%s", out, err);
    cr_assert(strstr(out, "concurrency    answers/s") && strstr(out, "x: answers per second"), "%s", out);
    char *drawn = file_read(svg, &bytes);
    cr_assert(strstr(drawn, "</svg>") != NULL);
    free(drawn);
    cJSON *json = load("--duration=50ms", "--sweep=rate=40..80:20"), *steps = cJSON_GetObjectItem(json, "steps");
    cr_assert_eq(cJSON_GetArraySize(steps), 3);
    cr_assert_eq(number_at(cJSON_GetArrayItem(steps, 1), "value", NULL), 60);
    cr_assert_eq(number_at(cJSON_GetArrayItem(steps, 2), "requests", NULL), 4, "80 per second for 50 ms");
    cJSON_Delete(json);
    cr_assert_eq(RUN("load", "echo", "--sweep=many"), 2);
    cr_assert_eq(RUN("load", "echo", "--svg=x"), 2);
    cr_assert_eq(RUN("load", "echo", "--sweep=rate=1..2", "--record=x"), 2);
    cr_assert_eq(RUN("load", "--replay=x", "--rate=5"), 2);
    cr_assert_eq(RUN("load", "echo", "--arrivals=sometimes"), 2);
}

Test(command, load_comes_at_random_times_when_asked)
{
    cJSON *json = load("--rate=200", "--arrivals=poisson"), *again = load("--rate=200", "--arrivals=poisson"),
          *other =
              RUN("load", "--model=echo", "--duration=300ms", "--json", "--rate=200", "--arrivals=poisson", "--seed=5")
                  ? NULL
                  : json_out();
    double count = number_at(json, "requests", NULL);
    cr_assert(count > 30 && count < 95 && count != 60, "%g", count);
    cr_assert_eq(count, number_at(again, "requests", NULL), "the same seed, the same times");
    cr_assert_neq(count, number_at(other, "requests", NULL), "another seed, other times");
    cJSON_Delete(json);
    cJSON_Delete(again);
    cJSON_Delete(other);
}

Test(command, load_options_have_effects)
{
    struct digest first, second;
    cJSON_Delete(load("--no-cache", "--tenant=acme"));
    cr_assert((fake_see(fake).last_submit.flags & FRAME_FLAG_NO_CACHE) != 0);
    cJSON_Delete(load("--image", picture));
    first = fake_see(fake).last_submit.digest;
    cJSON_Delete(load("--image", picture));
    second = fake_see(fake).last_submit.digest;
    cr_assert(digest_equal(first, second), "the same input each time");
    cJSON_Delete(load("--unique", "--concurrency=8"));
    first = fake_see(fake).last_submit.digest;
    cJSON_Delete(load("--unique", "--concurrency=8"));
    second = fake_see(fake).last_submit.digest;
    cr_assert(!digest_equal(first, second), "another input each time");
    fake_set(fake, (struct fake_behaviour){.job_status = PEN_ERR_BUSY});
    cr_assert_eq(RUN("load", "--model=echo", "--duration=100ms", "--json"), 1);
    cJSON *json = json_out();
    cr_assert_eq(number_at(json, "errors", NULL), number_at(json, "requests", NULL));
    cJSON_Delete(json);
}

Test(command, environment_names_the_broker)
{
    setenv("PENSTOCK_BROKER", fake_endpoint(fake), 1);
    cr_assert_eq(run_argv((const char *const[]){"penstock", "models", NULL}), 0, "%s", err);
    cr_assert_eq(run_argv((const char *const[]){"penstock", NULL}), 0);
    cr_assert(strstr(out, "penstock submit echo FILE") != NULL, "alone it says what to do next: %s", out);
    setenv("PENSTOCK_BROKER", "ipc:///tmp/penstock-nobody-listens-here", 1);
    cr_assert_eq(run_argv((const char *const[]){"penstock", NULL}), 0);
    cr_assert(strstr(out, "penstock-worker --models") != NULL, "%s", out);
}

Test(command, every_command_has_help_with_exit_codes_and_json_keys)
{
    const char *const verbs[] = {"submit", "models", "workers", "top", "load", "cancel", "drain"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        cr_assert_eq(run_argv((const char *const[]){"penstock", verbs[i], "--help", NULL}), 0);
        cr_assert(strstr(out, "Exit codes") && strstr(out, "JSON") && strstr(out, "--broker"), "%s: %s", verbs[i], out);
    }
}
