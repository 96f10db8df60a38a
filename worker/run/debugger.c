/* debugger.c - an engine for one run in debug mode. */
#include "debugger.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct debugger {
    struct pen_engine_options options;
    pthread_mutex_t running; /* held from open to close */
};

struct debugger *debugger_new(const struct pen_engine_options *options)
{
    struct debugger *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->options = *options;
    d->options.mode = PEN_MODE_DEBUG;
    d->options.check_numerics = PEN_CHECK_WARN; /* the log names them, the run goes on */
    d->options.f16_range_check = PEN_CHECK_OFF;
    d->options.compare_reference = false;
    pthread_mutex_init(&d->running, NULL);
    return d;
}

void debugger_free(struct debugger *debugger)
{
    if (!debugger)
        return;
    pthread_mutex_destroy(&debugger->running);
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
    enum pen_status status = pen_engine_new(&debugger->options, &ret_run->engine, reterr);
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
