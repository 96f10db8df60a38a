/*
 * command.h - what the subcommands of `penstock` share: the table, exit codes, the settings every one has, and how errors are told.
 *
 * Threads: owner - the main thread.
 */
#ifndef COMMAND_H
#define COMMAND_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "penstock/client.h"
#include "settings.h"

enum exit_code { EXIT_OK = 0, EXIT_JOB_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_POOL = 3 };

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit code */
};

int command_submit(int argc, char **argv);
int command_models(int argc, char **argv);
int command_workers(int argc, char **argv);
int command_top(int argc, char **argv);
int command_stats(int argc, char **argv);
int command_load(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_drain(int argc, char **argv);
int command_model(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_torture(int argc, char **argv);
int command_fetch(int argc, char **argv);
int command_import(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_keys(int argc, char **argv);
int command_quarantine(int argc, char **argv);
int command_cancel(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_log_level(int argc, char **argv);
int command_usage(int argc, char **argv);
int command_compare(int argc, char **argv);

/* First member of every command's options. */
struct common {
    const char *broker, *tenant, *key, *broker_key;
    int64_t timeout_us;
    bool json;
};

/* clang-format off */
#define COMMON_SETTINGS(opts)                                                                                                    \
    {.name = "broker", .type = SETTING_TEXT, .offset = offsetof(opts, common.broker), .def = "tcp://127.0.0.1:5550",             \
     .help = "endpoint of the broker for clients"},                                                                              \
    {.name = "tenant", .type = SETTING_TEXT, .offset = offsetof(opts, common.tenant), .def = "default",                          \
     .help = "tenant to act for"},                                                                                               \
    {.name = "key", .type = SETTING_TEXT, .offset = offsetof(opts, common.key), .def = "",                                       \
     .help = "key file of `penstock keygen`, where the broker asks for keys"},                                                   \
    {.name = "broker-key", .type = SETTING_TEXT, .offset = offsetof(opts, common.broker_key), .def = "",                         \
     .help = "the broker's public key, 64 hex digits"},                                                                          \
    {.name = "timeout", .type = SETTING_DURATION, .offset = offsetof(opts, common.timeout_us), .def = "3s",        \
     .help = "how long to wait for the broker's first word"},                                                                    \
    {.name = "json", .type = SETTING_FLAG, .offset = offsetof(opts, common.json), .def = "false",                                \
     .help = "print one JSON object"}
/* clang-format on */

#define EXIT_CODES_TEXT                                                                                                \
    "Exit codes: 0 done, 1 a job or a file failed or the broker said no, 2 wrong usage, 3 no broker or no capable "    \
    "worker."

/* What a command was called with, and what came of it. */
struct command_line {
    int argc;
    char **argv;
    const char **words; /* [words_max], its arguments that are no options; NULL: it takes none */
    size_t words_max, count;
    struct settings_store *store; /* has the texts of the options; to be freed at the end */
    int exit;                     /* EXIT_OK until something else is known */
};

/* Fills options from the table, and the words. True: go on. False: return line->exit, as help was printed, or an error told. */
bool command_settings(const struct settings_program *program, struct command_line *line, void *options);

/* The main of a command about one job: fills options from the table and runs it with the id that was named. Returns the exit code. */
int command_of_job(const struct settings_program *program, int argc, char **argv, void *options,
                   int (*run)(const void *options, const char *job));

/* A session whose broker has answered; NULL: the error was told and *ret_exit set. */
pen_client *command_connect(const struct common *common, const char *name, int *ret_exit);
/* What becomes of jobs when the only broker is about to end. */
enum on_drain {
    DRAIN_WAITS, /* they wait for the one that comes in its place */
    DRAIN_TELLS, /* they end: --tell-drain */
};
pen_client *command_connect_for_jobs(const struct common *common, const char *name, enum on_drain on_drain,
                                     int *ret_exit);

/*
 * As pen_client_models; a broker that has none yet, because it has just begun and its workers are on their way back, is asked again for as long as --timeout.
 */
enum pen_status command_models_wait(const struct common *common, pen_client *client, struct pen_model_list **ret_models,
                                    struct pen_error *reterr);

/* Says on stderr what went wrong, as text or {"error": {...}}, and returns the exit code for the status. */
int command_fail(const struct common *common, const struct pen_error *error);
int command_exit_of(enum pen_status status);

/* Of a job's answer: UNSUPPORTED is what a job is told that no worker can run as it demands. */
int command_exit_of_answer(enum pen_status status);

/* Prints one JSON object and a newline; frees it. EXIT_OK, or EXIT_JOB_FAILED without memory. */
int command_print(cJSON *json);

/* "12.3 MB", "4.5 s" for people; returns text. */
#define AMOUNT_BYTES 24
const char *amount_bytes(uint64_t bytes, char text[AMOUNT_BYTES]);
const char *amount_us(uint64_t us, char text[AMOUNT_BYTES]);

#endif
