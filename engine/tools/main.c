/*
 * penstock-engine - the engine without a network: what it has (info), one run, verification against expected outputs, and timing.
 */
#include <stdio.h>
#include <string.h>

#include "tools/tool.h"
#include "version.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"info", cmd_info, "backends, devices, flags and self-tests of this host"},
    {"run", cmd_run, "run a model once: --model FILE --input name=file ... --output-dir DIR"},
    {"verify", cmd_verify, "run cases with expected outputs and compare: PATH..."},
    {"tune", cmd_tune, "measures kernels on the products of models, and keeps the fastest: MODEL..."},
    {"bench", cmd_bench, "load, warm-up and run times of a model: --model FILE"},
};

static void usage(FILE *out)
{
    fprintf(out, "usage: penstock-engine COMMAND [options]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    }
    fprintf(out, "\n`penstock-engine COMMAND --help` tells its options.\nExit codes: 0 done, 1 failed, 2 wrong usage, "
                 "3 not supported on this host or in this build.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return TOOL_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s\n", version_build());
        return TOOL_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "penstock-engine: no command is called '%s'; try `penstock-engine --help`\n", argv[1]);
    return TOOL_USAGE;
}
