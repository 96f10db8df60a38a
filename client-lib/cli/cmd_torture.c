/* cmd_torture.c - `penstock torture`: faults under load, and the verdict. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "deadline.h"
#include "torture/torture.h"
#include "words.h"

#define LOOK_US     50000u
#define PROGRESS_US 1000000u

static volatile sig_atomic_t interrupted; /* no further fault; the verdict is of what was */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* The first SIGINT or SIGTERM ends the faults, the second the program; a terminal that goes does as the first, unless nohup said otherwise. */
static void signals_install(void)
{
    struct sigaction before, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(SIGHUP, &action, NULL);
    }
}

struct options {
    const char *broker, *bin, *write_model;
    int64_t duration_us, seed, window, large_every, interval_us, settle_us;
    bool json, redis, keep_logs;
};

/* clang-format off */
static const struct setting settings[] = {
    {.name = "duration", .type = SETTING_DURATION, .offset = offsetof(struct options, duration_us), .def = "60s", .min = 1000000, .max = 86400000000,
     .help = "how long faults strike"},
    {.name = "seed", .type = SETTING_INT, .offset = offsetof(struct options, seed), .def = "1",
     .help = "decides which fault strikes next; the load's timing is the machine's"},
    {.name = "interval", .type = SETTING_DURATION, .offset = offsetof(struct options, interval_us), .def = "2s", .min = 10000, .max = 3600000000,
     .help = "between two faults"},
    {.name = "settle", .type = SETTING_DURATION, .offset = offsetof(struct options, settle_us), .def = "40s", .min = 1000000, .max = 3600000000,
     .help = "after the last fault: a job without an answer by then is lost"},
    {.name = "window", .type = SETTING_INT, .offset = offsetof(struct options, window), .def = "64", .unit = "jobs", .min = 1, .max = 4000,
     .help = "jobs under way"},
    {.name = "large-every", .type = SETTING_INT, .offset = offsetof(struct options, large_every), .def = "500", .unit = "jobs", .min = 0, .max = 1000000000,
     .help = "one job of so many has a payload of 2 MiB, which travels as chunks; 0 = none"},
    {.name = "broker", .type = SETTING_TEXT, .offset = offsetof(struct options, broker), .def = "",
     .help = "a pool on 127.0.0.1 that serves the models twice and wide (--write-model): its clients' connection is cut, its programs are left alone"},
    {.name = "write-model", .type = SETTING_TEXT, .offset = offsetof(struct options, write_model), .def = "",
     .help = "only write DIR/models/twice and wide, which a given pool's workers are to serve"},
    {.name = "bin", .type = SETTING_TEXT, .offset = offsetof(struct options, bin), .def = "",
     .help = "folder of penstock-broker and penstock-worker; default: beside this program, then PATH"},
    {.name = "redis", .type = SETTING_FLAG, .offset = offsetof(struct options, redis), .def = "false",
     .help = "with a redis-server as cache, which is stopped and killed too"},
    {.name = "keep-logs", .type = SETTING_FLAG, .offset = offsetof(struct options, keep_logs), .def = "false",
     .help = "leave the programs' logs, as after a bad verdict"},
    {.name = "json", .type = SETTING_FLAG, .offset = offsetof(struct options, json), .def = "false",
     .help = "print one JSON object"},
    {.name = NULL}};
/* clang-format on */

/* The pool of a shell's other commands is not the one to strike: it must be named on the command line. */
static const struct setting_variable variables[] = {
    {"broker", "", NULL},
    {"duration", "PENSTOCK_TORTURE_DURATION", settings_old_never},
    {"interval", "PENSTOCK_TORTURE_INTERVAL", settings_old_never},
    {.setting = NULL},
};

static const struct settings_program program = {
    .name = "penstock torture",
    .usage = "penstock torture [--duration TIME] [--seed N] [--json]",
    .about =
        "Starts a pool of its own - a broker and four workers on loopback - keeps it under load, and lets a seeded mix "
        "of "
        "kills, stops, drains,\ncut connections and Redis faults strike. A ledger holds every accepted job against its "
        "answers: none may be lost, none answered twice.",
    .after =
        "JSON: {accepted, accepted_large, answered, answered_twice, wrong, lost, errors_by_type, duplicates_executed, "
        "recovery_ms: {FAULT: {p50, "
        "p99, max, n}},\nfaults_by_kind, faults: [KIND of each in order], seed, duration_s, verdict}. A recovery "
        "ends when all jobs that were "
        "under way at the "
        "fault have their answers; it counts when no other fault struck meanwhile.\n\nThe first SIGINT or SIGTERM "
        "ends the faults, and the verdict is of the time until then (duration_s).\n\nExit codes: 0 nothing lost, "
        "nothing answered twice or wrongly; 1 otherwise; "
        "2 wrong usage; "
        "3 the pool did not start.",
    .table = settings,
    .variables = variables,
};

static bool good(const struct torture_ledger *ledger)
{
    return ledger->accepted > 0 && ledger_lost(ledger) == 0 && ledger->twice == 0 && ledger->wrong == 0;
}

static cJSON *recoveries_json(struct torture_ledger *ledger)
{
    cJSON *json = cJSON_CreateObject();
    for (int f = 0; f < FAULT_COUNT; f++) {
        if (ledger->recoveries[f] == 0) {
            continue;
        }
        cJSON *one = cJSON_AddObjectToObject(json, fault_name((enum fault)f));
        cJSON_AddNumberToObject(one, "p50", ledger_recovery_ms(ledger, (enum fault)f, 0.5));
        cJSON_AddNumberToObject(one, "p99", ledger_recovery_ms(ledger, (enum fault)f, 0.99));
        cJSON_AddNumberToObject(one, "max", ledger_recovery_ms(ledger, (enum fault)f, 1.0));
        cJSON_AddNumberToObject(one, "n", (double)ledger->recoveries[f]);
    }
    return json;
}

static int report_json(const struct options *o, struct torture_ledger *ledger, const struct torture_plan *plan,
                       uint64_t lasted_us)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "accepted", (double)ledger->accepted);
    cJSON_AddNumberToObject(json, "accepted_large", (double)ledger->large);
    cJSON_AddNumberToObject(json, "answered", (double)ledger->answered);
    cJSON_AddNumberToObject(json, "answered_twice", (double)ledger->twice);
    cJSON_AddNumberToObject(json, "wrong", (double)ledger->wrong);
    cJSON_AddNumberToObject(json, "lost", (double)ledger_lost(ledger));
    cJSON *errors = cJSON_AddObjectToObject(json, "errors_by_type");
    for (int i = 0; i < PEN_STATUS_COUNT; i++) {
        if (ledger->errors[i]) {
            cJSON_AddNumberToObject(errors, pen_status_name((enum pen_status)i), (double)ledger->errors[i]);
        }
    }
    cJSON_AddNumberToObject(json, "duplicates_executed", (double)ledger->duplicates);
    cJSON_AddItemToObject(json, "recovery_ms", recoveries_json(ledger));
    cJSON *faults = cJSON_AddObjectToObject(json, "faults_by_kind");
    for (int f = 0; f < FAULT_COUNT; f++) {
        cJSON_AddNumberToObject(faults, fault_name((enum fault)f), (double)plan->counts[f]);
    }
    cJSON *order = cJSON_AddArrayToObject(json, "faults");
    for (uint64_t i = 0; i < plan->struck && i < TORTURE_ORDER_MAX; i++) {
        cJSON_AddItemToArray(order, cJSON_CreateString(fault_name((enum fault)plan->order[i])));
    }
    cJSON_AddNumberToObject(json, "seed", (double)o->seed);
    cJSON_AddNumberToObject(json, "duration_s", (double)lasted_us * 1e-6);
    cJSON_AddStringToObject(json, "verdict", good(ledger) ? "good" : "bad");
    return command_print(json);
}

static void report_text(struct torture_ledger *ledger, const struct torture_plan *plan)
{
    printf("accepted %" PRIu64 " (%" PRIu64 " large)  answered %" PRIu64 "  lost %" PRIu64 "  answered twice %" PRIu64
           "  wrong %" PRIu64 "  executed again %" PRIu64 "\n",
           ledger->accepted, ledger->large, ledger->answered, ledger_lost(ledger), ledger->twice, ledger->wrong,
           ledger->duplicates);
    for (int i = 0; i < PEN_STATUS_COUNT; i++) {
        if (ledger->errors[i]) {
            printf("  %-12s %" PRIu64 " (%s)\n", pen_status_name((enum pen_status)i), ledger->errors[i],
                   ledger->last_error);
        }
    }
    printf("%-14s %6s %12s %12s %12s\n", "FAULT", "N", "P50 MS", "P99 MS", "MAX MS");
    for (int f = 0; f < FAULT_COUNT; f++) {
        if (plan->counts[f]) {
            enum fault fault = (enum fault)f;
            printf("%-14s %6" PRIu64 " %12.1f %12.1f %12.1f\n", fault_name(fault), plan->counts[f],
                   ledger_recovery_ms(ledger, fault, 0.5), ledger_recovery_ms(ledger, fault, 0.99),
                   ledger_recovery_ms(ledger, fault, 1.0));
        }
    }
    printf("verdict: %s\n", good(ledger) ? "good, no job was lost or answered twice" : "BAD");
}

/* One line on a terminal, once a second. */
static void show_progress(const struct options *o, const struct torture_ledger *ledger, const struct torture_plan *plan,
                          uint64_t since_us, uint64_t *next_us)
{
    uint64_t now_us = clock_now_us();
    if (now_us < *next_us || !isatty(STDERR_FILENO)) {
        return;
    }
    *next_us = now_us + PROGRESS_US;
    fprintf(stderr,
            "\r%.0f s of %.0f: %" PRIu64 " %s, %" PRIu64 " %s accepted, %" PRIu64 " answered, %" PRIu64 " under way   ",
            (double)(now_us - since_us) * 1e-6, (double)o->duration_us * 1e-6, plan->struck,
            words_plural(plan->struck, "fault", "faults"), ledger->accepted,
            words_plural(ledger->accepted, "job", "jobs"), ledger->answered, ledger->under_way);
}

/* Returns how long faults struck, in us. */
static uint64_t strike(const struct options *o, struct torture_pool *pool, struct torture_plan *plan,
                       struct torture_ledger *ledger)
{
    bool own = !*o->broker, put_off = false;
    enum fault fault;
    uint64_t begin_us = clock_now_us(), shown_us = begin_us;
    uint64_t end_us = begin_us + (uint64_t)o->duration_us, fault_us = begin_us + (uint64_t)o->interval_us;
    uint64_t last_us = end_us + (uint64_t)o->settle_us; /* for a pool that does not come up again */
    /* Every fault that is due before the end strikes, also on a machine that is late for it: a seed's faults are the same everywhere. */
    for (uint64_t now_us = begin_us; !interrupted && (now_us < end_us || (fault_us < end_us && now_us < last_us));
         now_us = clock_now_us()) {
        ledger_run(ledger, put_off || now_us + LOOK_US < fault_us ? now_us + LOOK_US : fault_us);
        plan_heal(plan, pool, false);
        if (own) {
            torture_pool_mend(pool);
        }
        bool due = clock_now_us() >= fault_us;
        put_off = due && !plan_strike(plan, pool, own, &fault);
        if (due && !put_off) {
            ledger_fault(ledger, fault);
            fault_us += (uint64_t)o->interval_us;
        }
        show_progress(o, ledger, plan, begin_us, &shown_us);
    }
    uint64_t lasted_us = interrupted ? clock_now_us() - begin_us : (uint64_t)o->duration_us;
    plan_heal(plan, pool, true);
    for (uint64_t limit_us = clock_now_us() + (uint64_t)o->settle_us;
         ledger->under_way > 0 && clock_now_us() < limit_us;) {
        ledger_settle(ledger, clock_now_us() + LOOK_US);
        if (own) {
            torture_pool_mend(pool);
        }
        show_progress(o, ledger, plan, begin_us, &shown_us);
    }
    if (isatty(STDERR_FILENO)) {
        fputc('\n', stderr);
    }
    return lasted_us;
}

/* "tcp://127.0.0.1:5550" -> 5550; 0: it is none. */
static int local_port(const char *endpoint)
{
    const char *prefix = "tcp://127.0.0.1:";
    return strncmp(endpoint, prefix, strlen(prefix)) == 0 ? atoi(endpoint + strlen(prefix)) : 0;
}

/* The relay takes connections whether there is somebody behind it or not. */
static bool anybody_at(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return there;
}

static bool open_given(const struct options *o, struct torture_pool *pool, struct pen_error *reterr)
{
    int port = local_port(o->broker);
    pool->relay = port > 0 ? relay_new() : NULL;
    pool->client_lane = pool->relay ? relay_add(pool->relay, port) : -1;
    if (pool->client_lane < 0) {
        pen_error_set(reterr, PEN_ERR_INVALID,
                      "--broker %.200s is no tcp://127.0.0.1:PORT that a relay can stand before.", o->broker);
        return false;
    }
    if (!anybody_at(port)) {
        pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                      "nobody listens at --broker %.200s; is penstock-broker running there?", o->broker);
        return false;
    }
    snprintf(pool->clients, sizeof pool->clients, "tcp://127.0.0.1:%d", relay_port(pool->relay, pool->client_lane));
    return true;
}

static int torture(const struct options *o)
{
    struct torture_pool pool = {.bin = o->bin, .with_redis = o->redis && !*o->broker};
    struct torture_ledger ledger = {.client = NULL};
    struct torture_plan plan;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_NO_POOL;
    signals_install();
    plan_init(&plan, (uint64_t)o->seed);
    bool ready = *o->broker ? open_given(o, &pool, &error) : torture_pool_start(&pool, &error);
    if (ready && ledger_open(&ledger, pool.clients, (uint64_t)o->window, (uint64_t)o->large_every, &error) &&
        torture_pool_serves(ledger.client, !*o->broker, &error)) {
        uint64_t lasted_us = strike(o, &pool, &plan, &ledger);
        code = good(&ledger) ? EXIT_OK : EXIT_JOB_FAILED;
        if (o->json) {
            report_json(o, &ledger, &plan, lasted_us);
        } else {
            report_text(&ledger, &plan);
        }
    } else {
        command_fail(&(struct common){.json = o->json}, &error);
        code = !ready && error.status == PEN_ERR_INVALID ? EXIT_USAGE : code;
    }
    bool keep = pool.folder[0] && (o->keep_logs || code != EXIT_OK);
    ledger_close(&ledger);
    torture_pool_stop(&pool, keep);
    if (keep) {
        fprintf(stderr, "penstock torture: the programs' logs are in %s\n", pool.folder);
    }
    return code;
}

static int write_model(const struct options *o)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (model_write(o->write_model)) {
        return EXIT_OK;
    }
    pen_error_set(&error, PEN_ERR_IO, "cannot write into %.300s; does the folder exist?", o->write_model);
    return command_fail(&(struct common){.json = o->json}, &error);
}

int command_torture(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&(struct settings_call){&program, argc, argv, NULL, 0}, &options, &count, &store, &code)) {
        code = *options.write_model ? write_model(&options) : torture(&options);
        settings_free(store);
    }
    return code;
}
