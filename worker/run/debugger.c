/* debugger.c - an engine for one run in debug mode. */
#include "debugger.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct debugger {
    struct pen_env *env;
    pthread_mutex_t running; /* held from open to close */
};

/* What a log names does not end the run, and other checks have no place beside it. */
static enum pen_status flags_set(struct pen_env *env, struct pen_error *reterr)
{
    static const struct {
        const char *flag, *value;
    } rows[] = {{"mode", "debug"}, {"check_numerics", "warn"}, {"f16_range_check", "off"}, {"compare", "none"}};
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof rows / sizeof rows[0]; i++)
        status = pen_env_set(env, rows[i].flag, rows[i].value, PEN_ORIGIN_FLAG, "a job in debug mode", reterr);
    return status;
}

enum pen_status debugger_new(struct pen_env *env, struct debugger **ret_debugger, struct pen_error *reterr)
{
    struct debugger *d = calloc(1, sizeof *d);
    enum pen_status status =
        d ? flags_set(env, reterr) : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for jobs in debug mode");
    if (status != PEN_OK) {
        pen_env_free(env);
        free(d);
        return status;
    }
    d->env = env;
    pthread_mutex_init(&d->running, NULL);
    *ret_debugger = d;
    return PEN_OK;
}

void debugger_free(struct debugger *debugger)
{
    if (!debugger)
        return;
    pthread_mutex_destroy(&debugger->running);
    pen_env_free(debugger->env);
    free(debugger);
}

static enum pen_status same_model(const struct served *served, const struct debug_run *run, struct pen_error *reterr)
{
    uint8_t serves[16], debugs[16];
    pen_model_digest(served->model, serves);
    pen_model_digest(run->model, debugs);
    return memcmp(serves, debugs, sizeof serves) == 0
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_CORRUPT,
                               "'%.512s' is not what it was when it was loaded: load the model anew", served->path);
}

enum pen_status debugger_open(struct debugger *debugger, const struct served *served, struct debug_run *ret_run,
                              struct pen_error *reterr)
{
    pthread_mutex_lock(&debugger->running);
    *ret_run = (struct debug_run){.debugger = debugger};
    enum pen_status status = pen_engine_open(debugger->env, &ret_run->engine, reterr);
    if (status == PEN_OK)
        status = pen_model_load(ret_run->engine, served->path, &ret_run->model, reterr);
    if (status == PEN_OK)
        status = same_model(served, ret_run, reterr);
    return status == PEN_OK ? pen_session_new(ret_run->model, &ret_run->session, reterr) : status;
}

char *debugger_text(const struct debug_run *run)
{
    char *text = run->session ? malloc(DEBUG_LOG_BYTES) : NULL;
    if (text)
        pen_session_debug_text(run->session, text, DEBUG_LOG_BYTES);
    return text;
}

void debugger_close(struct debug_run *run)
{
    if (!run->debugger)
        return;
    pen_session_free(run->session);
    pen_model_free(run->model);
    pen_engine_free(run->engine);
    pthread_mutex_unlock(&run->debugger->running);
    *run = (struct debug_run){.debugger = NULL};
}
