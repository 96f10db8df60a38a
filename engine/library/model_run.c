#include <stdlib.h>

#include "library/measure.h"
#include "library/reader.h"
#include "library/runs.h"
#include "library/tensor.h"
#include "penstock/backends.h"
#include "run/session_device.h"
#include "words.h"

/* Views of the inputs, each waited for; those that are on a device go to the task. A result has the name of an output, which means nothing to this model. */
static enum pen_status inputs_view(struct task *task, struct pen_tensor_handle *const *inputs, size_t count,
                                   struct pen_tensor *views, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        if (inputs[i] == NULL) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "input %zu is no tensor but NULL", i);
        }
        status = tensor_take(inputs[i], &views[i], &task->taken[i], reterr);
        views[i].name = inputs[i]->task != NULL ? NULL : views[i].name;
    }
    return status;
}

static enum pen_status results_make(struct task *task, const struct pen_tensor *signatures, struct pen_error *reterr)
{
    for (size_t i = 0; i < task->count; i++) {
        task->results[i] = tensor_pending(&signatures[i], task);
        if (task->results[i] == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for output '%s'", signatures[i].name);
        }
    }
    return PEN_OK;
}

/* Of a run that did not begin: the maker's part in them, and the task's. */
static void results_undo(struct task *task)
{
    for (size_t i = 0; i < task->count && task->results[i] != NULL; i++) {
        struct pen_tensor_handle *t = task->results[i];
        pen_tensor_dispose(t);
        tensor_drop(t);
    }
}

static enum pen_status session_fill(struct runs *runs, struct task *task, const struct pen_tensor *views, size_t count,
                                    const struct pen_stop *stop, struct pen_session **ret_session,
                                    struct pen_error *reterr)
{
    enum pen_status status = runs_take(runs, ret_session, reterr);
    if (status != PEN_OK) {
        return status;
    }
    task->measure = measure_now();
    pen_session_profile(*ret_session, false); /* the rows of an earlier run */
    pen_session_profile(*ret_session, task->measure != NULL);
    status = session_start(*ret_session, views, task->taken, count, stop, reterr);
    if (status != PEN_OK) {
        session_device_undo(*ret_session);
        runs_give(runs, *ret_session);
    }
    return status;
}

/* The session has the run: it goes on in the background, on the device, or here and now. */
static enum pen_status run_go(struct task *task, bool background, bool device, struct pen_error *reterr)
{
    if (background && task->measure == NULL && reader_run(task, NULL) == PEN_OK) {
        return PEN_OK;
    }
    return device ? PEN_OK : task_wait(task, reterr);
}

static enum pen_status run_task(struct runs *runs, struct task *task, const struct pen_tensor *views, size_t count,
                                const struct pen_run_options *options, struct pen_tensor_handle **ret_outputs,
                                struct pen_error *reterr)
{
    struct pen_session *session = NULL;
    enum pen_status status = results_make(task, pen_model_outputs(runs_model(runs), &(size_t){0}), reterr);
    if (status == PEN_OK) {
        status = session_fill(runs, task, views, count, options->stop, &session, reterr);
    }
    if (status != PEN_OK) {
        results_undo(task);
        return status;
    }
    for (size_t i = 0; i < task->count; i++) {
        ret_outputs[i] = task->results[i];
    }
    const bool device = pen_session_window(session) > 1;
    task_started(task, runs, session);
    status = run_go(task, options->background, device, reterr);
    for (size_t i = 0; status != PEN_OK && i < task->count; i++) {
        pen_tensor_dispose(ret_outputs[i]);
        ret_outputs[i] = NULL;
    }
    return status;
}

static enum pen_status counts_check(const struct pen_model *model, size_t inputs, size_t outputs,
                                    struct pen_error *reterr)
{
    size_t takes = 0, gives = 0;
    (void)pen_model_inputs(model, &takes);
    (void)pen_model_outputs(model, &gives);
    if (inputs == takes && outputs == gives) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "the model takes %zu %s and gives %zu %s, not %zu and %zu", takes,
                         words_plural(takes, "input", "inputs"), gives, words_plural(gives, "output", "outputs"),
                         inputs, outputs);
}

enum pen_status pen_model_run(struct pen_model *model, struct pen_tensor_handle *const *inputs, size_t count,
                              const struct pen_run_options *options, struct pen_tensor_handle **ret_outputs,
                              size_t output_count, struct pen_error *reterr)
{
    for (size_t i = 0; i < output_count; i++) {
        ret_outputs[i] = NULL;
    }
    enum pen_status status = counts_check(model, count, output_count, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct runs *runs = runs_of(model);
    struct task *task = task_new(output_count);
    struct pen_tensor *views = calloc(count + 1, sizeof *views);
    if (task != NULL) {
        task->on_device = options != NULL && options->on_device;
        task->taken_count = count;
        task->taken = calloc(count + 1, sizeof *task->taken);
    }
    if (runs == NULL || task == NULL || task->taken == NULL || views == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a run");
    }
    if (status == PEN_OK) {
        status = inputs_view(task, inputs, count, views, reterr);
    }
    if (status == PEN_OK) {
        status = run_task(runs, task, views, count, options != NULL ? options : &(struct pen_run_options){0},
                          ret_outputs, reterr);
    }
    task_drop(task);
    free(views);
    return status;
}
