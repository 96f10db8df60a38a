#include "library/task.h"

#include <stdlib.h>

#include "assertion.h"
#include "mutex.h"
#include "run/session_device.h"

struct task *task_new(size_t count)
{
    struct task *task = malloc(sizeof *task + count * sizeof(struct pen_tensor_handle *));
    if (task == NULL) {
        return NULL;
    }
    atomic_init(&task->references, 1);
    atomic_init(&task->done, false);
    mutex_init(&task->lock);
    task->runs = NULL;
    task->session = NULL;
    task->measure = NULL;
    task->next = NULL;
    task->status = PEN_OK;
    task->sentence[0] = '\0';
    task->on_device = false;
    task->taken = NULL;
    task->taken_count = 0;
    task->count = count;
    for (size_t i = 0; i < count; i++) {
        task->results[i] = NULL;
    }
    return task;
}

void task_taken_drop(struct task *task)
{
    for (size_t i = 0; task->taken != NULL && i < task->taken_count; i++) {
        device_value_drop(task->taken[i]);
    }
    free(task->taken);
    task->taken = NULL;
}

struct task *task_hold(struct task *task)
{
    atomic_fetch_add(&task->references, 1);
    return task;
}

void task_drop(struct task *task)
{
    if (task == NULL) {
        return;
    }
    const unsigned before = atomic_fetch_sub(&task->references, 1);
    PEN_ASSERT(before > 0, "a reference that goes was held");
    if (before == 1) {
        PEN_ASSERT(task->runs == NULL, "a run that nobody holds has ended");
        task_taken_drop(task);
        mutex_fini(&task->lock);
        free(task);
    }
}
