/* main.c - penstock-worker: settings, log, signals; the rest is worker.c. */
#include "worker.h"

#include "deadline.h"
#include "signals.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    uint64_t start_us = clock_now_us();
    struct options options = {0};
    struct settings_store *store = NULL;
    struct pen_error error = {0};
    enum settings_outcome outcome = SETTINGS_RUN;
    size_t positional = 0;
    signals_install();
    enum pen_status status =
        settings_load(&options_program, argc, argv, &options, NULL, 0, &positional, &outcome, &store, &error);
    if (status != PEN_OK) {
        fprintf(stderr, "penstock-worker: %s\n", error.text);
        return WORKER_EXIT_USAGE;
    }
    if (outcome == SETTINGS_EXIT) {
        settings_free(store);
        return WORKER_EXIT_OK;
    }
    log_setup("worker", options_log_level(&options), strcmp(options.log_format, "json") == 0);
    int code = worker_run(&options, start_us);
    settings_free(store);
    return code;
}
