/* main.c - penstock-worker: settings, log, signals; the rest is worker.c. */
#include "worker.h"

#include "deadline.h"
#include "file_fault.h"
#include "signals.h"
#include "supervise.h"

#include <stdio.h>
#include <string.h>

struct service {
    const struct options *options;
    uint64_t start_us;
};

/* Runs in the process that serves; after a restart the start time is that of the new process. */
static int work_run(void *context)
{
    struct service *work = context;
    return worker_run(work->options, work->options->supervise ? clock_now_us() : work->start_us);
}

int main(int argc, char **argv)
{
    uint64_t start_us = clock_now_us();
    struct options options = {0};
    struct settings_store *store = NULL;
    struct pen_error error = {0};
    enum settings_outcome outcome = SETTINGS_RUN;
    signals_install();
    file_fault_install();
    enum pen_status status = settings_load(&(struct settings_call){&options_program, argc, argv, NULL, 0}, &options,
                                           NULL, &outcome, &store, &error);
    if (status != PEN_OK) {
        fprintf(stderr, "penstock-worker: %s\n", error.text);
        return WORKER_EXIT_USAGE;
    }
    if (outcome == SETTINGS_EXIT) {
        settings_free(store);
        return WORKER_EXIT_OK;
    }
    options.settings = store;
    log_setup("worker", options_log_level(&options), strcmp(options.log_format, "json") == 0);
    struct service work = {.options = &options, .start_us = start_us};
    int code = options.supervise ? supervise_run(work_run, &work) : work_run(&work);
    settings_free(store);
    return code;
}
