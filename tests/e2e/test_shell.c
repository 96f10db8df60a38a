/* The commands as people type them: exit codes, one environment for all programs, names that are nearly right, words that are right. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

#define SAMPLE    PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png"
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct pool pool;

static void setup(void)
{
    pool_start(&pool, ARGS("--worker-wait", "200ms"));
    pool_add_worker(&pool, "reference", NULL, ARGS("--name", "first"));
}

static void teardown(void)
{
    pool_stop(&pool);
}

TestSuite(shell, .init = setup, .fini = teardown);

/* Runs a program to its end; what it printed on both streams, one after the other (free it). */
static char *said(int code, const char *const argv[])
{
    char *out = NULL, *err = NULL;
    int got = process_run(argv, 60000, &out, &err);
    size_t bytes = strlen(out) + strlen(err) + 1;
    char *text = malloc(bytes);
    cr_assert_not_null(text);
    snprintf(text, bytes, "%s%s", out, err);
    cr_assert_eq(got, code, "%s %s ended with %d, not %d:\n%s", argv[0], argv[1] ? argv[1] : "", got, code, text);
    free(out);
    free(err);
    return text;
}

static void expect_said(int code, const char *words, const char *const argv[])
{
    char *text = said(code, argv);
    cr_assert_not_null(strstr(text, words), "%s %s does not say '%s':\n%s", argv[0], argv[1] ? argv[1] : "", words,
                       text);
    free(text);
}

/* a. --help: 3 is "no broker or no capable worker". */
Test(shell, exit_code_3_is_a_pool_that_cannot_run_the_job)
{
    expect_said(3, "on backend 'gpu'",
                ARGS("penstock", "submit", "--broker", pool.clients, "--backend", "gpu", "digits", SAMPLE));
    expect_said(3, "tags", ARGS("penstock", "submit", "--broker", pool.clients, "--tag", "gpu", "digits", SAMPLE));
    expect_said(3, "UNSUPPORTED",
                ARGS("penstock", "load", "--broker", pool.clients, "--tag", "gpu", "--duration", "100ms", "digits"));
    expect_said(1, "nothing", ARGS("penstock", "submit", "--broker", pool.clients, "nothing", SAMPLE));
    process_stop(pool.workers[0], 20000);
    expect_said(3, "no worker",
                ARGS("penstock", "submit", "--broker", pool.clients, "--timeout", "300ms", "digits", SAMPLE));
    expect_said(3, "no worker", ARGS("penstock", "load", "--broker", pool.clients, "--timeout", "300ms", "digits"));
}

/* What was written wrongly is 2, whether the broker is there or not. */
Test(shell, exit_code_2_is_a_wrong_address_or_key_file)
{
    expect_said(2, "/nonexistent/key",
                ARGS("penstock", "models", "--broker", pool.clients, "--key", "/nonexistent/key", "--broker-key",
                     "0000000000000000000000000000000000000000000000000000000000000001"));
    expect_said(2, "nowhere", ARGS("penstock", "models", "--broker", "nowhere"));
    expect_said(2, "1 what? write 1s", ARGS("penstock", "load", "--broker", pool.clients, "--duration", "1", "digits"));
}

/* b. Nothing that is meant for the commands is taken for the worker's, or for torture's. */
Test(shell, one_environment_serves_all_programs)
{
    setenv("PENSTOCK_BROKER", pool.clients, 1);
    setenv("PENSTOCK_WORKER_BROKER", pool.workers_endpoint, 1);
    setenv("PENSTOCK_WORKER_NAME", "second", 1);
    setenv("PENSTOCK_MODEL", "nothing", 1);
    setenv("PENSTOCK_TAG", "blue", 1);
    setenv("PENSTOCK_WORKER_TAG", "blue", 1);
    struct process *worker = process_start(
        ARGS("penstock-worker", "--models", POOL_DIGITS_MODELS, "--backend", "reference", "--threads", "1"), NULL);
    cr_assert(process_wait_text(worker, "evt=welcome", support_slow(20000)), "%s", process_err(worker));
    cr_assert_null(strstr(process_err(worker), "PENSTOCK_"), "%s", process_err(worker));
    expect_said(0, "worker second", ARGS("penstock", "submit", "digits", SAMPLE));
    cr_assert_eq(process_stop(worker, 20000), 0);
    process_free(worker);
}

Test(shell, torture_strikes_no_pool_that_a_variable_names)
{
    setenv("PENSTOCK_BROKER", "tcp://127.0.0.1:1", 1);
    expect_said(
        0, "verdict: good",
        ARGS("penstock", "torture", "--duration", "1s", "--interval", "400ms", "--window", "4", "--large-every", "0"));
}

/* c. */
Test(shell, submit_and_load_name_the_model_alike)
{
    const char *broker = pool.clients;
    expect_said(0, "three", ARGS("penstock", "submit", "--broker", broker, "digits", SAMPLE));
    expect_said(0, "three", ARGS("penstock", "submit", "--broker", broker, "--model", "digits", SAMPLE));
    expect_said(0, "requests", ARGS("penstock", "load", "--broker", broker, "digits", "--duration", "100ms"));
    expect_said(0, "requests",
                ARGS("penstock", "load", "--broker", broker, "--model", "digits", "--duration", "100ms"));
    expect_said(2, "name a model", ARGS("penstock", "load", "--broker", broker));
}

Test(shell, help_version_and_stats_are_where_people_look)
{
    expect_said(0, "Usage: penstock submit", ARGS("penstock", "help", "submit"));
    expect_said(0, "COMMAND", ARGS("penstock", "help"));
    expect_said(2, "did you mean \"submit\"", ARGS("penstock", "help", "sumbit"));
    expect_said(0, "Usage: penstock-engine tune", ARGS("penstock-engine", "help", "tune"));
    const char *const words[] = {"-v", "version", "--version"};
    for (size_t i = 0; i < 3; i++) {
        char *text = said(0, ARGS("penstock", words[i]));
        cr_assert_eq(strncmp(text, "penstock 0.1.0", 14), 0, "%s", text);
        cr_assert_null(strstr(text + 1, "penstock"), "%s", text);
        free(text);
    }
    expect_said(0, "1 worker", ARGS("penstock", "stats", "--broker", pool.clients));
    expect_said(0, "{\"stats\":{", ARGS("penstock", "stats", "--broker", pool.clients, "--json"));
}

/* d. */
Test(shell, submit_prints_the_job_that_explain_knows)
{
    char *text = said(0, ARGS("penstock", "submit", "--broker", pool.clients, "digits", SAMPLE)), id[64] = "";
    const char *at = strstr(text, "  job ");
    cr_assert(at && sscanf(at, "  job %63s", id) == 1, "%s", text);
    expect_said(0, id, ARGS("penstock", "explain", "--broker", pool.clients, id));
    free(text);
}

/* e. */
Test(shell, what_is_nearly_right_is_suggested)
{
    expect_said(2, "did you mean \"submit\"?", ARGS("penstock", "sumbit"));
    expect_said(2, "did you mean 'verify'?", ARGS("penstock-engine", "verfy"));
    expect_said(1, "did you mean \"digits\"?", ARGS("penstock", "submit", "--broker", pool.clients, "digit", SAMPLE));
    expect_said(1, "did you mean \"digits\"?", ARGS("penstock", "load", "--broker", pool.clients, "Digits"));
    expect_said(1, "did you mean \"digits\"?", ARGS("penstock", "models", "--broker", pool.clients, "digit"));
    expect_said(1, "did you mean digits?", ARGS("penstock", "model", "--broker", pool.clients, "load", "digist"));
    expect_said(3, "did you mean digits?",
                ARGS("penstock-worker", "--backend", "reference", "--models", POOL_DIGITS_MODELS, "--model", "dgits"));
    setenv("PENSTOCK_TIEMOUT", "1s", 1);
    expect_said(0, "PENSTOCK_TIEMOUT; did you mean PENSTOCK_TIMEOUT?\n",
                ARGS("penstock", "models", "--broker", pool.clients));
}

/* i. */
Test(shell, words_follow_their_numbers)
{
    static const char *const wrong[] = {" 1 jobs", " 1 rows",  " 1 workers",        " 1 clients",
                                        "up to 0", "[no-]no-", "penstock penstock", "1 inputs"};
    char *texts[] = {
        said(0, ARGS("penstock", "submit", "--broker", pool.clients, "--explain", "--no-cache", "digits", SAMPLE)),
        said(0, ARGS("penstock", "stats", "--broker", pool.clients)),
        said(0, ARGS("penstock", "models", "digits", "--broker", pool.clients)),
        said(0, ARGS("penstock", "submit", "--help")),
        said(0, ARGS("penstock", "load", "--help")),
        said(0, ARGS("penstock-engine", "bench", "--model", POOL_DIGITS_MODELS "/digits/1/model.onnx", "--runs", "1"))};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            cr_expect_null(strstr(texts[i], wrong[k]), "'%s' in:\n%s", wrong[k], texts[i]);
        }
        free(texts[i]);
    }
}
