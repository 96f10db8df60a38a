#include "lean_worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "deadline.h"
#include "lean.h"
#include "logline.h"
#include "worker.h"

static struct options options;
static struct settings_store *store;
static pthread_t thread;
static atomic_bool ended;
static int exit_code;

bool lean_worker_init(const char *broker, const char *folder)
{
    enum settings_outcome outcome = SETTINGS_RUN;
    char endpoint[64], models[256];
    snprintf(endpoint, sizeof endpoint, "%s", broker);
    snprintf(models, sizeof models, "%s", folder);
    char *arguments[] = {"lean",      "--broker", endpoint,         "--models", models, "--backend",
                         "reference", "--name",   LEAN_WORKER_NAME, "--slots",  "2",    "--threads",
                         "1",         "--mode",   "prod",           NULL};
    log_setup("worker", getenv("LEAN_LOG") ? LOG_DEBUG : LOG_ERROR, false);
    const struct settings_call call = {&options_program, (int)(sizeof arguments / sizeof *arguments) - 1, arguments,
                                       NULL, 0};
    bool good = settings_load(&call, &options, NULL, &outcome, &store, NULL) == PEN_OK;
    options.settings = store;
    return good;
}

void lean_worker_fini(void)
{
    settings_free(store);
    store = NULL;
}

static void *worker_main(void *unused)
{
    (void)unused;
    lean_watch(true);
    exit_code = worker_run(&options, clock_now_us());
    atomic_store(&ended, true);
    return NULL;
}

void lean_worker_start(void)
{
    atomic_store(&ended, false);
    if (pthread_create(&thread, NULL, worker_main, NULL) != 0)
        abort();
}

bool lean_worker_ended(void)
{
    return atomic_load(&ended);
}

int lean_worker_join(void)
{
    pthread_join(thread, NULL);
    return exit_code;
}

bool lean_worker_failed_start(int code)
{
    return code == WORKER_EXIT_FAILED || code == WORKER_EXIT_MODELS || code == WORKER_EXIT_USAGE;
}
