#include "library/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "library/measure.h"
#include "library/tensor.h"
#include "mutex.h"
#include "run/session_device.h"

#define SESSIONS_LEAST 4
#define SESSIONS_MOST  64

struct runs {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a session came back, or a run is on its way */
    struct pen_model *model;
    struct pen_session *idle[SESSIONS_MOST];
    size_t idle_count, count, most;
    struct task *oldest, *youngest;
};

/* ---- sessions ------------------------------------------------------------------------------------------------------- */

static struct task *oldest_hold(struct runs *runs)
{
    mutex_take(&runs->lock);
    struct task *task = runs->oldest != NULL ? task_hold(runs->oldest) : NULL;
    mutex_give(&runs->lock);
    return task;
}

static void runs_free(void *attached)
{
    struct runs *runs = attached;
    for (struct task *task = oldest_hold(runs); task != NULL; task = oldest_hold(runs)) {
        (void)task_wait(task, NULL);
        task_drop(task);
    }
    PEN_ASSERT(runs->idle_count == runs->count, "nobody runs a model that is closed");
    for (size_t i = 0; i < runs->idle_count; i++) {
        pen_session_free(runs->idle[i]);
    }
    pthread_cond_destroy(&runs->changed);
    mutex_fini(&runs->lock);
    free(runs);
}

static size_t sessions_most(void)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t wanted = cpus < SESSIONS_LEAST ? SESSIONS_LEAST : (size_t)cpus;
    return wanted < SESSIONS_MOST ? wanted : SESSIONS_MOST;
}

struct runs *runs_of(struct pen_model *model)
{
    static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
    mutex_take(&first);
    if (model->attached == NULL) {
        struct runs *runs = calloc(1, sizeof *runs);
        if (runs != NULL) {
            mutex_init(&runs->lock);
            pthread_cond_init(&runs->changed, NULL);
            runs->model = model;
            runs->most = sessions_most();
            model->attached_free = runs_free;
            model->attached = runs;
        }
    }
    struct runs *runs = model->attached;
    mutex_give(&first);
    return runs;
}

struct pen_model *runs_model(const struct runs *runs)
{
    return runs->model;
}

/* One that is idle, or (NULL) the right to make one: true. Else the oldest run, held: its end brings a session. */
static bool session_claim(struct runs *runs, struct pen_session **ret_session, struct task **ret_oldest)
{
    mutex_take(&runs->lock);
    while (runs->idle_count == 0 && runs->count == runs->most && runs->oldest == NULL) {
        pthread_cond_wait(&runs->changed, &runs->lock); /* threads prepare their runs */
    }
    const bool idle = runs->idle_count > 0, more = !idle && runs->count < runs->most;
    *ret_session = idle ? runs->idle[--runs->idle_count] : NULL;
    runs->count += more;
    *ret_oldest = idle || more ? NULL : task_hold(runs->oldest);
    mutex_give(&runs->lock);
    return idle || more;
}

enum pen_status runs_take(struct runs *runs, struct pen_session **ret_session, struct pen_error *reterr)
{
    struct task *oldest = NULL;
    while (!session_claim(runs, ret_session, &oldest)) {
        (void)task_wait(oldest, NULL);
        task_drop(oldest);
    }
    if (*ret_session != NULL) {
        return PEN_OK;
    }
    enum pen_status status = pen_session_new(runs->model, ret_session, reterr);
    if (status != PEN_OK) {
        mutex_take(&runs->lock);
        runs->count--;
        pthread_cond_broadcast(&runs->changed);
        mutex_give(&runs->lock);
    }
    return status;
}

static void give_locked(struct runs *runs, struct pen_session *session)
{
    PEN_ASSERT(runs->idle_count < runs->count, "a session that comes back was taken");
    runs->idle[runs->idle_count++] = session;
    pthread_cond_broadcast(&runs->changed);
}

void runs_give(struct runs *runs, struct pen_session *session)
{
    mutex_take(&runs->lock);
    give_locked(runs, session);
    mutex_give(&runs->lock);
}

/* ---- runs ----------------------------------------------------------------------------------------------------------- */

void task_started(struct task *task, struct runs *runs, struct pen_session *session)
{
    mutex_take(&runs->lock);
    task->runs = runs;
    task->session = session;
    if (runs->youngest != NULL) {
        runs->youngest->next = task;
    } else {
        runs->oldest = task;
    }
    runs->youngest = task_hold(task);
    pthread_cond_broadcast(&runs->changed);
    mutex_give(&runs->lock);
}

static void leave_runs(struct task *task)
{
    struct runs *runs = task->runs;
    mutex_take(&runs->lock);
    struct task **at = &runs->oldest, *before = NULL;
    while (*at != task) {
        PEN_ASSERT(*at != NULL, "a run on its way is in its model's list");
        before = *at;
        at = &(*at)->next;
    }
    *at = task->next;
    if (runs->youngest == task) {
        runs->youngest = before;
    }
    give_locked(runs, task->session);
    mutex_give(&runs->lock);
    task->runs = NULL;
    task->session = NULL;
}

static enum pen_status result_fill(const struct task *task, size_t index, const struct pen_tensor *output,
                                   struct pen_error *reterr)
{
    struct device_value *value = NULL;
    struct pen_tensor_handle *result = task->results[index];
    enum pen_status status = task->on_device ? session_device_keep(task->session, index, &value, reterr) : PEN_OK;
    if (status == PEN_OK && value != NULL) {
        tensor_fill_device(result, output, value);
        return PEN_OK;
    }
    if (status == PEN_OK && tensor_fill(result, output) != PEN_OK) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for output '%s'", output->name);
    }
    return status;
}

static void results_fill(struct task *task, const struct pen_tensor *outputs, struct pen_error *reterr)
{
    for (size_t i = 0; task->status == PEN_OK && i < task->count; i++) {
        if (tensor_wanted(task->results[i])) {
            task->status = result_fill(task, i, &outputs[i], reterr);
        }
    }
    session_device_clear(task->session);
    task_taken_drop(task);
}

static void rows_give(const struct task *task)
{
    if (task->measure != NULL) {
        size_t count = 0;
        const struct pen_profile_row *rows = pen_session_profile_rows(task->session, &count);
        measure_rows(task->measure, rows, count);
    }
}

/* Under its lock. False: the run is still on the device after so long. */
static bool finish_locked(struct task *task, uint64_t timeout_us)
{
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    struct pen_error error = {0};
    if (atomic_load(&task->done)) {
        return true;
    }
    if (task->on_device) {
        session_device_want(task->session);
    }
    task->status = pen_session_await(task->session, timeout_us, &outputs, &count, &error);
    if (task->status == PEN_ERR_TIMEOUT && pen_session_in_flight(task->session) > 0) {
        return false;
    }
    rows_give(task);
    results_fill(task, outputs, &error);
    snprintf(task->sentence, sizeof task->sentence, "%s", error.text);
    leave_runs(task);
    atomic_store(&task->done, true);
    return true;
}

/* After the lock: what the run held for itself. The caller holds the task. */
static void results_drop(struct task *task)
{
    for (size_t i = 0; i < task->count; i++) {
        tensor_drop(task->results[i]);
    }
    task_drop(task);
}

enum pen_status task_wait(struct task *task, struct pen_error *reterr)
{
    if (!atomic_load(&task->done)) {
        mutex_take(&task->lock);
        const bool ours = !atomic_load(&task->done);
        (void)finish_locked(task, UINT64_MAX);
        mutex_give(&task->lock);
        if (ours) {
            results_drop(task);
        }
    }
    return task->status == PEN_OK ? PEN_OK : pen_error_set(reterr, task->status, "%s", task->sentence);
}

bool task_look(struct task *task)
{
    if (atomic_load(&task->done)) {
        return true;
    }
    if (pthread_mutex_trylock(&task->lock) != 0) {
        return false; /* somebody waits for it */
    }
    const bool ours = !atomic_load(&task->done);
    /* A run that begins when it is awaited is never ready by itself: its waiter, or the library's thread, computes it. */
    const bool ended = !ours || (pen_session_window(task->session) > 1 && finish_locked(task, 0));
    mutex_give(&task->lock);
    if (ours && ended) {
        results_drop(task);
    }
    return ended;
}
