/*
 * runs.h - the sessions of a model, and the runs that are on their way in them: one run per session.
 *
 * A model gets them at its first run, and they go with it. When all sessions are taken, the oldest run is brought to its end for the next one.
 * Threads: any.
 */
#ifndef LIBRARY_RUNS_H
#define LIBRARY_RUNS_H

#include "library/task.h"

/* Those of the model. NULL without memory. */
struct runs *runs_of(struct pen_model *model);
struct pen_model *runs_model(const struct runs *runs);
/* A session that nobody uses. Give it back, or start a task in it. */
enum pen_status runs_take(struct runs *runs, struct pen_session **ret_session, struct pen_error *reterr);
void runs_give(struct runs *runs, struct pen_session *session);

/* The session has submitted the run: the task is among those on their way, which hold it. */
void task_started(struct task *task, struct runs *runs, struct pen_session *session);
/* Waits until it is done, and gives its status and sentence. */
enum pen_status task_wait(struct task *task, struct pen_error *reterr);
/* Is it done? Looks after the run where nobody else does, and never waits. */
bool task_look(struct task *task);

#endif
