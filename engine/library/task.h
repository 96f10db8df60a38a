/*
 * task.h - one run of a model whose results are tensors: from its submit until they are filled.
 *
 * It is shared: the runs of the model hold it until it is done, each of its tensors until that is freed. runs.h brings it to its end.
 * Threads: references any. `lock` is held while a thread waits for the run; what stands below it is written before `done` is set, and read after.
 */
#ifndef LIBRARY_TASK_H
#define LIBRARY_TASK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "penstock/engine.h"

struct runs;
struct measure;
struct pen_tensor_handle;

struct task {
    atomic_uint references;
    atomic_bool done;
    pthread_mutex_t lock;
    struct runs *runs; /* of the model; NULL once it is done */
    struct pen_session *session;
    struct measure *measure; /* of the thread that waits for it; NULL = none */
    struct task *next;       /* of the same model, younger */
    enum pen_status status;  /* how the run ended */
    char sentence[PEN_ERROR_TEXT_BYTES];
    bool on_device; /* results stay there */
    struct device_value *
        *taken; /* [taken_count] inputs of a device, held until it is done; NULL entries are others; NULL = none */
    size_t taken_count;
    size_t count;
    struct pen_tensor_handle *results[]; /* held until it is done */
};

struct task *task_new(size_t count); /* one reference, no results; NULL without memory */
struct task *task_hold(struct task *task);
void task_drop(struct task *task); /* NULL is fine */
void task_taken_drop(struct task *task);

#endif
