/* `penstock torture`: a good pool passes, its report has what it promises, and a broker that forgets jobs is caught. */
#include <criterion/criterion.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "folder.h"
#include "pool.h"
#include "process.h"

#define QUICK "--interval", "400ms"

static cJSON *torture(const char *const more[], int *ret_code)
{
    const char *argv[24] = {"penstock", "torture", "--json"};
    char *out = NULL, *err = NULL;
    size_t count = 3;
    for (size_t i = 0; more[i]; i++)
        argv[count++] = more[i];
    *ret_code = process_run(argv, support_slow(300000), &out, &err);
    cJSON *json = cJSON_Parse(out);
    cr_assert_not_null(json, "%s%s", out, err);
    free(out);
    free(err);
    return json;
}

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    cr_assert(cJSON_IsNumber(item), "%s is missing", key);
    return item->valuedouble;
}

/* One deck of faults is 42 cards. Ten minutes at the default interval of 2 s are 299 faults: seven decks and some. */
#define DECK     42
#define DECKS_10 7

static void check_faults(const cJSON *faults, const char *text)
{
    static const struct {
        const char *name;
        double in_ten_minutes;
    } least[] = {{"worker_kill", 100}, {"broker_kill", 20}, {"worker_stop", 20},
                 {"worker_cut", 20},   {"worker_drain", 7}, {"broker_drain", 7},
                 {"client_cut", 7},    {"redis_stop", 7},   {"redis_kill", 7}};
    double all = 0;
    for (const cJSON *one = faults->child; one; one = one->next)
        all += one->valuedouble;
    cr_assert_eq(all, DECK, "%s", text);
    for (size_t i = 0; i < sizeof least / sizeof least[0]; i++)
        cr_assert_geq(DECKS_10 * number(faults, least[i].name), least[i].in_ten_minutes, "%s: %s", least[i].name, text);
}

static void check_recoveries(const cJSON *recoveries, const char *text)
{
    cr_assert_not_null(recoveries->child, "%s", text);
    for (const cJSON *one = recoveries->child; one; one = one->next) {
        cr_assert_leq(number(one, "p50"), number(one, "p99"), "%s", text);
        cr_assert_leq(number(one, "p99"), number(one, "max"), "%s", text);
        cr_assert_geq(number(one, "n"), 1, "%s", text);
    }
}

/*
 * It ends when the deck is dealt: every fault that is due within the duration strikes, also one that had to wait for somebody to hurt. On a busy machine programs
 * come up slowly, and so the settling time, which limits that wait, is long; nobody waits for it where all is well.
 */
Test(torture, good_pool_loses_nothing_and_the_report_says_what_befell_it, .timeout = 480)
{
    int code;
    cJSON *json = torture((const char *const[]){QUICK, "--duration", "17s", "--settle", "120s", "--seed", "7",
                                                "--redis", "--large-every", "50", NULL},
                          &code);
    char *text = cJSON_Print(json);
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_gt(number(json, "accepted"), 100);
    cr_assert_gt(number(json, "accepted_large"), 0, "%s", text);
    cr_assert_eq(number(json, "accepted"), number(json, "answered"));
    cr_assert_eq(number(json, "lost") + number(json, "answered_twice") + number(json, "wrong"), 0);
    cr_assert_geq(number(json, "duplicates_executed"), 0);
    cr_assert(cJSON_IsObject(cJSON_GetObjectItem(json, "errors_by_type")));
    cr_assert_eq(number(json, "seed"), 7);
    cr_assert_eq(number(json, "duration_s"), 17);
    cr_assert_str_eq(cJSON_GetObjectItem(json, "verdict")->valuestring, "good");
    check_faults(cJSON_GetObjectItem(json, "faults_by_kind"), text);
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "faults")), DECK, "%s", text);
    free(text);
    cJSON_Delete(json);
}

/* Only faults that struck alone have a time of their own: here each has seconds to itself. */
Test(torture, recoveries_are_told, .timeout = 240)
{
    int code;
    cJSON *json = torture((const char *const[]){"--interval", "4s", "--duration", "13s", "--seed", "7", "--window", "8",
                                                "--large-every", "0", NULL},
                          &code);
    char *text = cJSON_Print(json);
    cr_assert_eq(code, 0, "%s", text);
    check_recoveries(cJSON_GetObjectItem(json, "recovery_ms"), text);
    free(text);
    cJSON_Delete(json);
}

/* How many faults fit into the time is the machine's business; which ones they are, and in what order, is the seed's. */
static bool same_beginning(const cJSON *a, const cJSON *b)
{
    int count = cJSON_GetArraySize(a) < cJSON_GetArraySize(b) ? cJSON_GetArraySize(a) : cJSON_GetArraySize(b);
    cr_assert_geq(count, 4);
    for (int i = 0; i < count; i++)
        if (strcmp(cJSON_GetArrayItem(a, i)->valuestring, cJSON_GetArrayItem(b, i)->valuestring) != 0)
            return false;
    return true;
}

Test(torture, same_seed_draws_the_same_faults, .timeout = 240)
{
    cJSON *report[3], *faults[3];
    const char *const seeds[] = {"3", "3", "4"};
    for (int i = 0; i < 3; i++) {
        int code;
        report[i] = torture((const char *const[]){QUICK, "--duration", "6s", "--window", "8", "--large-every", "0",
                                                  "--seed", seeds[i], NULL},
                            &code);
        cr_assert_eq(code, 0);
        cr_assert_eq(number(report[i], "accepted_large"), 0);
        faults[i] = cJSON_GetObjectItem(report[i], "faults");
    }
    cr_assert(same_beginning(faults[0], faults[1]));
    cr_assert_not(same_beginning(faults[0], faults[2]));
    for (int i = 0; i < 3; i++)
        cJSON_Delete(report[i]);
}

Test(torture, broker_that_forgets_jobs_is_caught, .timeout = 240)
{
    char bin[FOLDER_PATH_BYTES], from[1024], to[FOLDER_PATH_BYTES + 64];
    int code;
    folder_new(bin);
    snprintf(to, sizeof to, "%s/penstock-broker", bin);
    cr_assert_eq(symlink(PENSTOCK_PLANTED, to), 0);
    snprintf(from, sizeof from, "%s/penstock-worker", PENSTOCK_BIN);
    snprintf(to, sizeof to, "%s/penstock-worker", bin);
    cr_assert_eq(symlink(from, to), 0);
    /* The first 19 faults of this seed leave the broker alone: a restarted one would be told of the forgotten jobs again. */
    cJSON *json = torture(
        (const char *const[]){QUICK, "--duration", "8s", "--settle", "4s", "--seed", "13", "--bin", bin, NULL}, &code);
    cr_assert_eq(number(cJSON_GetObjectItem(json, "faults_by_kind"), "broker_kill"), 0);
    cr_assert_eq(code, 1);
    cr_assert_gt(number(json, "lost"), 0);
    cr_assert_str_eq(cJSON_GetObjectItem(json, "verdict")->valuestring, "bad");
    cJSON_Delete(json);
    folder_free(bin);
}

Test(torture, given_pool_has_its_clients_cut_off_and_nothing_else, .timeout = 120)
{
    struct pool pool;
    char folder[FOLDER_PATH_BYTES], models[FOLDER_PATH_BYTES + 16];
    int code;
    folder_new(folder);
    snprintf(models, sizeof models, "%s/models", folder);
    cr_assert_eq(
        process_run((const char *const[]){"penstock", "torture", "--write-model", folder, NULL}, 30000, NULL, NULL), 0);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    cJSON *json = torture((const char *const[]){QUICK, "--broker", pool.clients, "--duration", "5s", NULL}, &code);
    cr_assert_eq(code, 0);
    const cJSON *faults = cJSON_GetObjectItem(json, "faults_by_kind");
    cr_assert_geq(number(faults, "client_cut"), 5);
    cr_assert_eq(number(faults, "worker_kill") + number(faults, "broker_kill"), 0);
    cr_assert(process_alive(pool.workers[0]));
    cJSON_Delete(json);
    pool_stop(&pool);
    folder_free(folder);
}

static size_t files_in(const char *folder, const char *name)
{
    char pattern[FOLDER_PATH_BYTES + 96];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/penstock-torture-*/%s", folder, name);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

Test(torture, signal_ends_the_faults_and_the_verdict_is_of_what_was, .timeout = 240)
{
    char folder[FOLDER_PATH_BYTES], temporary[FOLDER_PATH_BYTES + 16], pattern[FOLDER_PATH_BYTES + 64];
    glob_t found;
    folder_new(folder);
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
    signal(SIGHUP, SIG_DFL); /* under nohup it would be ignored */
    struct process *process = process_start(
        (const char *const[]){"penstock", "torture", "--json", QUICK, "--duration", "1h", "--seed", "3", NULL},
        (const char *const[]){temporary, NULL});
    /* A broker, four workers, and one that was started again after a fault; and what a worker has measured, which lies beside the models. */
    while (files_in(folder, "*.log") < 6 || files_in(folder, "models/*/1/.penstock-measured") == 0) {
        cr_assert(process_alive(process), "%s", process_err(process));
        support_sleep_ms(20);
    }
    process_signal(process, SIGHUP); /* as SIGINT and SIGTERM */
    cr_assert_eq(process_wait(process, support_slow(60000)), 0, "%s%s", process_out(process), process_err(process));
    cJSON *json = cJSON_Parse(process_out(process));
    cr_assert_lt(number(json, "duration_s"), 3600);
    cr_assert_gt(number(json, "accepted"), 0);
    cr_assert_eq(number(json, "accepted"), number(json, "answered"));
    snprintf(pattern, sizeof pattern, "%s/*", folder);
    cr_assert_eq(glob(pattern, 0, NULL, &found), GLOB_NOMATCH, "%s is left", found.gl_pathv[0]);
    cJSON_Delete(json);
    process_free(process);
    folder_free(folder);
}

/* Who is not there is named by the address that was given, not by the relay's. */
Test(torture, pool_that_is_not_there_is_named, .timeout = 60)
{
    char *err = NULL;
    int code = process_run((const char *const[]){"penstock", "torture", "--broker", "tcp://127.0.0.1:1", "--duration",
                                                 "1s", "--interval", "1s", "--settle", "1s", NULL},
                           30000, NULL, &err);
    cr_assert_eq(code, 3, "%s", err);
    cr_assert_not_null(strstr(err, "tcp://127.0.0.1:1;"), "%s", err);
    free(err);
}

Test(torture, broker_address_that_no_relay_can_stand_before_is_refused, .timeout = 60)
{
    char *out = NULL, *err = NULL;
    int code = process_run(
        (const char *const[]){"penstock", "torture", "--broker", "ipc:///tmp/x", "--duration", "1s", "--json", NULL},
        30000, &out, &err);
    cr_assert_eq(code, 2, "%s", err);
    cr_expect(strstr(out, "\"error\"") && strstr(out, "relay"), "%s", out);
    free(out);
    free(err);
}

/* Jobs of models that nobody has all end in errors, none of them lost: that would be a good verdict of nothing. */
Test(torture, pool_without_the_models_gets_no_verdict, .timeout = 120)
{
    struct pool pool;
    int code;
    pool_start(&pool, NULL);
    cJSON *json = torture((const char *const[]){"--broker", pool.clients, "--duration", "1s", NULL}, &code);
    cr_assert_eq(code, 3);
    const cJSON *text = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "error"), "text");
    cr_assert(cJSON_IsString(text) && strstr(text->valuestring, "--write-model"));
    cJSON_Delete(json);
    pool_stop(&pool);
}

/* It was started anew for ever, each time counted as killed. */
Test(torture, redis_that_is_not_there_is_named, .timeout = 120)
{
    char folder[FOLDER_PATH_BYTES], temporary[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
    struct process *process =
        process_start((const char *const[]){"penstock", "torture", "--redis", "--duration", "1s", "--json", NULL},
                      (const char *const[]){temporary, "PATH=/nonexistent", NULL});
    cr_assert_eq(process_wait(process, support_slow(60000)), 3, "%s", process_err(process));
    cr_assert_not_null(strstr(process_out(process), "redis-server"), "%s", process_out(process));
    process_free(process);
    folder_free(folder);
}
