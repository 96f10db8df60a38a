/*
 * penstock-engine - the engine without a network: what it has (info), one run, verification against expected outputs, and timing.
 */
#include <stdio.h>
#include <string.h>

#include "tools/tool.h"
#include "version.h"
#include "words.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"info", cmd_info, "backends, devices, flags and self-tests of this host"},
    {"env", cmd_env, "flags and facts: value, origin and meaning"},
    {"run", cmd_run, "run a model once: --model FILE --input name=file ... --output-dir DIR"},
    {"verify", cmd_verify, "run cases with expected outputs and compare: PATH..."},
    {"import", cmd_import, "make a model file a model that workers serve: FILE NAME"},
    {"kernels", cmd_kernels, "what models need of a build, as a list to build from: MODEL..."},
    {"tune", cmd_tune, "measures kernels on the products of models, and keeps the fastest: MODEL..."},
    {"sizes", cmd_sizes, "what each part of a program weighs: --before MAP --svg FILE --image FOLDER"},
    {"bench", cmd_bench, "load, warm-up and run times of a model: --model FILE"},
};

static void usage(FILE *out)
{
    fprintf(out, "usage: penstock-engine COMMAND [options]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    }
    fprintf(out, "\n`penstock-engine COMMAND --help` tells its options.\nExit codes: 0 done, 1 failed, 2 wrong usage, "
                 "3 not supported on this host or in this build, 4 (info) a model that cannot run.\n");
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL && strcmp(word, *words) != 0; words++) {
    }
    return *words != NULL;
}

static int unknown_command(const char *name)
{
    struct nearest nearest;
    nearest_begin(&nearest, name, strlen(name));
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        nearest_offer_begun(&nearest, commands[i].name);
    }
    fprintf(stderr, "penstock-engine: no command is called '%s'%s%s%s `penstock-engine help` lists all\n", name,
            nearest.found != NULL ? "; did you mean '" : "", nearest.found != NULL ? nearest.found : "",
            nearest.found != NULL ? "'?" : ";");
    return TOOL_USAGE;
}

/* The page that leads to those of the commands, which are printed by themselves. */
static void man_print(void)
{
    printf(".\\\" Written by the program itself: --settings-man.\n.TH penstock\\-engine 1 \"\" \"penstock %s\" "
           "\"Penstock\"\n.SH NAME\npenstock\\-engine \\- the inference engine without a network\n.SH SYNOPSIS\n"
           ".B penstock\\-engine COMMAND [options]\n.SH COMMANDS\n",
           PENSTOCK_VERSION);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        printf(".TP\n.B %s\n%s. See\n.BR penstock\\-engine\\-%s (1).\n", commands[i].name, commands[i].help,
               commands[i].name);
    }
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 3 not supported on this host or in this build.\n"
           ".SH SEE ALSO\n.BR penstock (1),\n.BR penstock\\-worker (1)\n");
}

int main(int argc, char **argv)
{
    static char flag[] = "--help";
    if (argc < 2) {
        usage(stderr);
        return TOOL_USAGE;
    }
    bool asks_help = is_one_of(argv[1], (const char *const[]){"help", "--help", "-h", NULL});
    if (asks_help && argc == 2) {
        usage(stdout);
        return TOOL_OK;
    }
    if (strcmp(argv[1], "--settings-man") == 0) {
        man_print();
        return TOOL_OK;
    }
    if (is_one_of(argv[1], (const char *const[]){"version", "--version", "-v", "-V", NULL})) {
        puts(version_build());
        return TOOL_OK;
    }
    const char *name = argv[asks_help ? 2 : 1];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return asks_help ? commands[i].run(2, (char *[]){argv[2], flag, NULL})
                             : commands[i].run(argc - 1, argv + 1);
        }
    }
    return unknown_command(name);
}
