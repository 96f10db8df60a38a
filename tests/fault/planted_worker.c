/*
 * planted_worker.c - a worker that jobs can harm: an input that begins with KILL ends the process in its run, one that begins with HANG stops the
 * slot's thread before the run, outside of anything that the engine could time, one that begins with LAST is answered and then the thread takes no more, and one
 * that begins with FAIL is a mistake that an invariant finds.
 *
 * Linked with --wrap=gather_inputs,--wrap=task_open,--wrap=handoff_take into a program of its own. Nothing of it is in the worker that is built for users.
 */
#include "assertion.h"
#include "gather.h"
#include "handoff.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum pen_status __real_gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr);
enum pen_status __wrap_gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr);
enum pen_status __real_task_open(struct catalog *catalog, struct states *states, struct meta_arena *arena,
                                 const struct dispatch *dispatch, struct job *job, struct task *ret_task,
                                 struct pen_error *reterr);
enum pen_status __wrap_task_open(struct catalog *catalog, struct states *states, struct meta_arena *arena,
                                 const struct dispatch *dispatch, struct job *job, struct task *ret_task,
                                 struct pen_error *reterr);

struct dispatch *__real_handoff_take(struct handoff *handoff);
struct dispatch *__wrap_handoff_take(struct handoff *handoff);

static _Thread_local bool last;

static bool begins(const struct task *task, const char word[5])
{
    return task->inputs[0].bytes >= 4 && memcmp(task->inputs[0].data, word, 4) == 0;
}

enum pen_status __wrap_gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr)
{
    for (size_t i = 0; i < batch->count; i++)
        if (begins(batch->tasks[i], "KILL"))
            kill(getpid(), SIGKILL);
    for (size_t i = 0; i < batch->count; i++)
        PEN_ASSERT(!begins(batch->tasks[i], "FAIL"), "no job is planted");
    return __real_gather_inputs(session, batch, reterr);
}

enum pen_status __wrap_task_open(struct catalog *catalog, struct states *states, struct meta_arena *arena,
                                 const struct dispatch *dispatch, struct job *job, struct task *ret_task,
                                 struct pen_error *reterr)
{
    enum pen_status status = __real_task_open(catalog, states, arena, dispatch, job, ret_task, reterr);
    while (status == PEN_OK && begins(ret_task, "HANG"))
        pause();
    last |= status == PEN_OK && begins(ret_task, "LAST");
    return status;
}

struct dispatch *__wrap_handoff_take(struct handoff *handoff)
{
    while (last)
        pause();
    return __real_handoff_take(handoff);
}
