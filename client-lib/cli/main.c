/* main.c - `penstock`: finds the subcommand. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "version.h"
#include "words.h"

static const struct command commands[] = {
    {"submit", "run a model on pictures or tensors", command_submit},
    {"fetch", "the result of a job submitted with --detach", command_fetch},
    {"models", "list the pool's models", command_models},
    {"workers", "list the pool's workers", command_workers},
    {"top", "watch queues, workers, backends and cache", command_top},
    {"stats", "the pool's counters, once", command_stats},
    {"load", "measure latency and throughput under load", command_load},
    {"plan", "which workers and settings hold a promise about latency", command_plan},
    {"model", "load, unload and label models while they serve; push and pull them", command_model},
    {"explain", "why a job ran where it did, waits, or was refused", command_explain},
    {"trace", "show a job's life, or those of slow and failed jobs", command_trace},
    {"log-level", "change how much the pool logs", command_log_level},
    {"cancel", "cancel a job by its id", command_cancel},
    {"quarantine", "list, show or free the jobs that ended their workers", command_quarantine},
    {"compare", "two versions of a model beside each other on your data", command_compare},
    {"usage", "what each tenant has used, hour by hour", command_usage},
    {"import", "make a model file a model that workers serve", command_import},
    {"keygen", "make a pair of keys", command_keygen},
    {"keys", "check or seal a broker's list of keys", command_keys},
    {"torture", "faults under load: is anything lost or answered twice?", command_torture},
    {"drain", "let the broker, or one worker, finish and leave", command_drain},
};

#define COMMANDS_COUNT (sizeof commands / sizeof *commands)

static void commands_print(FILE *out)
{
    fprintf(out, "penstock COMMAND [options]\n\n");
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        fprintf(out, "  %-10s  %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out, "\nEach has --help (or penstock help COMMAND). Those that ask a broker take --broker ENDPOINT (or "
                 "PENSTOCK_BROKER), "
                 "default tcp://127.0.0.1:5550, "
                 "and --json.\n" EXIT_CODES_TEXT "\n");
}

/* The page that leads to those of the subcommands, which are printed by themselves. */
static void man_print(FILE *out)
{
    fprintf(out,
            ".\\\" Written by the program itself: --settings-man.\n.TH penstock 1 \"\" \"penstock %s\" \"Penstock\"\n"
            ".SH NAME\npenstock \\- run inference jobs on a pool of workers, and watch it\n"
            ".SH SYNOPSIS\n.B penstock COMMAND [options]\n.SH COMMANDS\n",
            PENSTOCK_VERSION);
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        fprintf(out, ".TP\n.B %s\n%s. See\n.BR penstock\\-%s (1).\n", commands[i].name, commands[i].summary,
                commands[i].name);
    }
    fprintf(out,
            ".PP\nThose that ask a broker take \\fB\\-\\-broker\\fP ENDPOINT (or \\fBPENSTOCK_BROKER\\fP), default "
            "tcp://127.0.0.1:5550, and \\fB\\-\\-json\\fP.\n.SH EXIT STATUS\n" EXIT_CODES_TEXT
            "\n.SH SEE ALSO\n.BR penstock\\-broker (1),\n.BR penstock\\-worker (1)\n");
}

/* What to do next depends on whether a pool is there. */
static int welcome(void)
{
    const char *broker = getenv("PENSTOCK_BROKER");
    struct pen_client_options options;
    pen_client *client = NULL;
    struct pen_model_list *models = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = broker && *broker ? broker : options.endpoint;
    options.connect_timeout_us = 300000;
    options.stays = true;
    commands_print(stdout);
    if (pen_client_connect(&options, &client, NULL) != PEN_OK) {
        printf("\nNo broker answers at %s. Start a pool:\n"
               "  penstock-broker &\n  penstock-worker --models DIR &\n  penstock models\n",
               options.endpoint);
        return EXIT_OK;
    }
    if (pen_client_models(client, 1000000, &models, NULL) == PEN_OK && models->count) {
        printf("\nThe broker at %s serves %zu model%s. Next:\n  penstock submit %s FILE...\n  penstock top\n",
               options.endpoint, models->count, words_plural(models->count, "", "s"), models->models[0]->name);
    } else {
        printf("\nThe broker at %s has no worker yet. Next:\n  penstock-worker --models DIR\n", options.endpoint);
    }
    pen_client_models_free(models);
    pen_client_free(client);
    return EXIT_OK;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    struct nearest nearest;
    nearest_begin(&nearest, name, strlen(name));
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        nearest_offer_begun(&nearest, commands[i].name);
    }
    nearest_offer_begun(&nearest, "help");
    nearest_offer_begun(&nearest, "version");
    if (nearest.found) {
        fprintf(stderr, "penstock: there is no command \"%s\"; did you mean \"%s\"? penstock help lists all.\n", name,
                nearest.found);
        return EXIT_USAGE;
    }
    fprintf(stderr, "penstock: there is no command \"%s\".\n\n", name);
    commands_print(stderr);
    return EXIT_USAGE;
}

/* `penstock help` and `penstock help COMMAND`. */
static int help(int argc, char **argv)
{
    static char flag[] = "--help";
    const struct command *command = argc > 0 ? command_find(argv[0]) : NULL;
    if (argc > 0 && !command) {
        return unknown_command(argv[0]);
    }
    if (command) {
        return command->run(2, (char *[]){argv[0], flag, NULL});
    }
    commands_print(stdout);
    return EXIT_OK;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words && strcmp(word, *words) != 0; words++) {
    }
    return *words != NULL;
}

static int run(int argc, char **argv)
{
    static const char *const helps[] = {"help", "--help", "-h", NULL}, *const versions[] = {"version", "--version",
                                                                                            "-v", "-V", NULL};
    if (argc < 2) {
        return welcome();
    }
    if (is_one_of(argv[1], helps)) {
        return help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--settings-man") == 0) {
        man_print(stdout);
        return EXIT_OK;
    }
    if (is_one_of(argv[1], versions)) {
        puts(version_build());
        return EXIT_OK;
    }
    const struct command *command = command_find(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}

/* What was printed into a full disk was not told to anybody, whatever became of the job. A reader that has gone has heard enough: that ends us by SIGPIPE. */
int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    int code = run(argc, argv);
    int error = fflush(stdout) != 0 ? errno : ferror(stdout) ? EIO : 0;
    if (error != 0 && code == EXIT_OK) {
        fprintf(stderr, "penstock: IO: the answer could not be written to stdout: %s\n", strerror(error));
        code = EXIT_JOB_FAILED;
    }
    return code;
}
