/*
 * debugger.h - runs one job in debug mode, on an engine, a model and a session of its own: what serves is not touched, and nothing of it stays.
 *
 * The model is loaded again from its file, so that each value of the run can be looked at (penstock/debug.h). One such run at a time: the others wait.
 * Threads: any.
 */
#ifndef DEBUGGER_H
#define DEBUGGER_H

#include "penstock/engine.h"
#include "served.h"

#define DEBUG_LOG_BYTES (40u * 1024u) /* of a result's meta, which has 64 KiB in all */

struct debugger;
/* env: flags of the engine that serves; taken over, also on failure. */
enum pen_status debugger_new(struct pen_env *env, struct debugger **ret_debugger, struct pen_error *reterr);
void debugger_free(struct debugger *debugger); /* NULL is fine */

/* Zeroed: nothing is open. */
struct debug_run {
    struct debugger *debugger;
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
};

/* CORRUPT when the model's file is no longer the one that is served. On failure there is nothing to run; debugger_close all the same. */
enum pen_status debugger_open(struct debugger *debugger, const struct served *served, struct debug_run *ret_run,
                              struct pen_error *reterr);
/* The log of its last run, at most DEBUG_LOG_BYTES with the NUL; free it. NULL: none, or no memory. */
char *debugger_text(const struct debug_run *run);
void debugger_close(struct debug_run *run); /* zeroed is fine */

#endif
