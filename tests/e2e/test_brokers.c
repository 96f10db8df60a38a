/* Two brokers of one Redis: what one has computed the other need not, labels told to one count at both, quotas are divided among those that live. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "pool.h"

#define PATH_BYTES (FOLDER_PATH_BYTES + 64)
#define KEY_TEXT   65
#define PATIENT    "--heartbeat", "5s", "--liveness", "20s" /* a busy machine loses no worker */
#define WAIT_MS    30000

static struct pool pools[2];
static struct process *redis;
static char folder[FOLDER_PATH_BYTES], url[64];

static void begin(void)
{
    int port = 0;
    folder_new(folder);
    redis = redis_start(&port, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0", port);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        pool_stop(&pools[i]);
    process_free(redis);
    folder_free(folder);
}

TestSuite(brokers, .init = begin, .fini = end, .timeout = 120);

static void worker_is_ready(void)
{
    for (int i = 0; i < 2; i++)
        cr_assert(process_wait_text(pools[i].broker, "evt=worker_ready", WAIT_MS), "%s", process_err(pools[i].broker));
}

/* One worker that serves both brokers. */
static void add_worker(const char *models)
{
    char both[2 * POOL_ENDPOINT_BYTES + 2];
    snprintf(both, sizeof both, "%s,%s", pools[0].workers_endpoint, pools[1].workers_endpoint);
    pool_add_worker(&pools[0], "xnnpack", models, (const char *const[]){"--broker", both, NULL});
    worker_is_ready();
}

static int command(int broker, char **ret_out, const char *verb, const char *const words[])
{
    char *out = NULL, *err = NULL;
    const char *all[16] = {"--timeout", "30s"};
    for (size_t i = 0; words[i]; i++)
        all[i + 2] = words[i];
    int code = pool_cli(&pools[broker], verb, all, &out, &err);
    size_t bytes = strlen(out) + strlen(err) + 1;
    *ret_out = malloc(bytes);
    snprintf(*ret_out, bytes, "%s%s", out, err);
    free(out);
    free(err);
    return code;
}

/* A word of the command line, and what it must print. */
static void says(int broker, const char *text, const char *verb, const char *const words[])
{
    char *out = NULL;
    command(broker, &out, verb, words);
    cr_assert_not_null(strstr(out, text), "penstock %s at broker %d: '%s' is not in '%s'", verb, broker, text, out);
    free(out);
}

#define ZERO PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png"

Test(brokers, what_one_has_computed_the_other_answers_from_redis)
{
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i],
                   (const char *const[]){"--cache", url, "--cache-deadline", "1s", "--http", "none", PATIENT, NULL});
    add_worker(NULL);
    says(0, "\"cached\":false", "submit", (const char *const[]){"digits", ZERO, "--json", NULL});
    char *out = NULL;
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(WAIT_MS) * 1000; /* it is stored after the reply */
    do {
        free(out);
        cr_assert_eq(command(1, &out, "submit", (const char *const[]){"digits", ZERO, "--json", NULL}), 0, "%s", out);
    } while (!strstr(out, "\"cached\":true") && support_now_us() < end_us);
    cr_assert_not_null(strstr(out, "\"cached\":true"), "%s", out);
    free(out);
    for (int i = 0; i < 2; i++)
        cr_assert(process_wait_text(pools[i].broker, "evt=brokers_counted brokers=2", WAIT_MS));
}

/* Version 2 is the same as version 1: which one answered stands in the answer. */
static void two_versions(char models[PATH_BYTES])
{
    char from[PATH_BYTES + 32], to[PATH_BYTES + 32], text[4096];
    snprintf(models, PATH_BYTES, "%s/models", folder);
    for (int version = 1; version <= 2; version++) {
        snprintf(to, sizeof to, "%s/digits/%d", models, version);
        folder_make(to);
        snprintf(to, sizeof to, "%s/digits/%d/model.onnx", models, version);
        snprintf(from, sizeof from, "%s/digits/1/model.onnx", POOL_DIGITS_MODELS);
        file_copy(from, to); /* a link that leads out of the folder would be refused */
    }
    static const char policy[] = "{\"version_policy\": {\"all\": {}},";
    size_t used = sizeof policy - 1;
    memcpy(text, policy, used);
    FILE *file = fopen(POOL_DIGITS_MODELS "/digits/config.json", "r");
    cr_assert_not_null(file);
    cr_assert_eq(fgetc(file), '{');
    used += fread(text + used, 1, sizeof text - used, file);
    fclose(file);
    snprintf(to, sizeof to, "%s/digits/config.json", models);
    file_write(to, text, used);
}

Test(brokers, labels_told_to_one_count_at_the_other_and_outlive_both)
{
    const char *const options[] = {"--detached", url, "--http", "none", PATIENT, NULL};
    const char *const submit[] = {"digits", ZERO, "--json", "--no-cache", NULL};
    char models[PATH_BYTES];
    two_versions(models);
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i], options);
    add_worker(models);
    says(1, "\"version\":2", "submit", submit);
    says(0, "stable", "model", (const char *const[]){"label", "digits", "stable", "1", NULL});
    says(0, "\"version\":1", "submit", submit);
    cr_assert(process_wait_text(pools[1].broker, "evt=labels_heard labels=1", WAIT_MS), "%s",
              process_err(pools[1].broker));
    says(1, "\"version\":1", "submit", submit);
    for (int i = 0; i < 2; i++) {
        process_signal(pools[i].broker, SIGKILL);
        process_wait(pools[i].broker, 5000);
    }
    for (int i = 0; i < 2; i++)
        pool_restart_broker(&pools[i], options);
    worker_is_ready();
    cr_assert(process_wait_text(pools[1].broker, "evt=labels_heard labels=1", WAIT_MS), "%s",
              process_err(pools[1].broker));
    says(1, "\"version\":1", "submit", submit);
    says(1, "taken back", "model", (const char *const[]){"label", "digits", "stable", "none", NULL});
    says(1, "\"version\":2", "submit", submit);
}

/* ---- quotas ---- */

static void keygen(const char *name, const char *roles, char line[256])
{
    char path[PATH_BYTES], *out = NULL, *err = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *const argv[] = {"penstock", "keygen", path, "--name", name, "--roles", roles, NULL};
    cr_assert_eq(process_run(argv, 30000, &out, &err), 0, "%s", err);
    snprintf(line, 256, "%.*s", (int)strcspn(out, "\n"), out);
    free(out);
    free(err);
}

/* One job of alice fits into her whole quota, not into half of it. */
Test(brokers, quotas_are_divided_among_the_brokers_that_live)
{
    char broker[256], alice[256], worker[256], text[600], list[PATH_BYTES], key[PATH_BYTES], own[PATH_BYTES],
        worker_key[PATH_BYTES];
    keygen("broker", "admin", broker);
    keygen("alice", "submit", alice);
    keygen("worker", "worker", worker);
    broker[KEY_TEXT - 1] = '\0';
    snprintf(list, sizeof list, "%s/keys", folder);
    snprintf(own, sizeof own, "%s/broker", folder);
    snprintf(key, sizeof key, "%s/alice", folder);
    snprintf(worker_key, sizeof worker_key, "%s/worker", folder);
    snprintf(text, sizeof text, "%s bytes=300\n%s\n", alice, worker);
    file_write(list, text, strlen(text));
    const char *const options[] = {"--cache", url, "--http", "none", "--key", own, "--keys", list, PATIENT, NULL};
    const char *const submit[] = {"digits", ZERO, "--key", key, "--broker-key", broker, NULL};
    pool_start(&pools[0], options);
    pool_add_worker(&pools[0], "xnnpack", NULL,
                    (const char *const[]){"--key", worker_key, "--broker-key", broker, NULL});
    says(0, "zero", "submit", submit);
    pool_start(&pools[1], options);
    cr_assert(process_wait_text(pools[0].broker, "evt=brokers_counted brokers=2", WAIT_MS));
    says(0, "divided among 2 brokers", "submit", submit);
    process_signal(pools[1].broker, SIGKILL);
    process_wait(pools[1].broker, 5000);
    cr_assert(process_wait_text(pools[0].broker, "evt=brokers_counted brokers=1", WAIT_MS));
    says(0, "zero", "submit", submit);
}
