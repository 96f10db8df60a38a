#include "library/reader.h"

#include <stdlib.h>
#include <string.h>

#include "library/runs.h"
#include "library/tensor.h"
#include "mutex.h"

/* A run to bring to its end, or a tensor to read. */
struct wish {
    struct wish *next;
    struct task *task;
    struct pen_tensor_handle *tensor;
    pen_tensor_data_function *done;
    void *context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct wish *first, *last;
static pthread_t thread;
static bool running, ending;

static struct wish *wish_next(void)
{
    mutex_take(&lock);
    while (first == NULL && !ending) {
        pthread_cond_wait(&changed, &lock);
    }
    struct wish *wish = first;
    if (wish != NULL) {
        first = wish->next;
        last = first == NULL ? NULL : last;
    }
    mutex_give(&lock);
    return wish;
}

static void wish_fulfil(struct wish *wish)
{
    if (wish->task != NULL) {
        (void)task_wait(wish->task, NULL);
        task_drop(wish->task);
        return;
    }
    struct pen_tensor view;
    struct pen_error error = {0};
    enum pen_status status = pen_tensor_view(wish->tensor, &view, &error);
    wish->done(wish->context, status, status == PEN_OK ? &view : NULL, &error);
    tensor_drop(wish->tensor);
}

static void *work(void *unused)
{
    (void)unused;
    for (struct wish *wish = wish_next(); wish != NULL; wish = wish_next()) {
        wish_fulfil(wish);
        free(wish);
    }
    return NULL;
}

static enum pen_status thread_start_locked(struct pen_error *reterr)
{
    if (running) {
        return PEN_OK;
    }
    const int error = pthread_create(&thread, NULL, work, NULL);
    if (error != 0) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the library's thread cannot be started: %s",
                             strerror(error));
    }
    running = true;
    return PEN_OK;
}

static enum pen_status wish_add(const struct wish *wanted, struct pen_error *reterr)
{
    struct wish *wish = malloc(sizeof *wish);
    if (wish == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to ask for a tensor");
    }
    *wish = *wanted;
    mutex_take(&lock);
    enum pen_status status = thread_start_locked(reterr);
    if (status != PEN_OK) {
        mutex_give(&lock);
        free(wish);
        return status;
    }
    if (last != NULL) {
        last->next = wish;
    } else {
        first = wish;
    }
    last = wish;
    pthread_cond_signal(&changed);
    mutex_give(&lock);
    return PEN_OK;
}

enum pen_status reader_run(struct task *task, struct pen_error *reterr)
{
    enum pen_status status = wish_add(&(struct wish){.task = task_hold(task)}, reterr);
    if (status != PEN_OK) {
        task_drop(task);
    }
    return status;
}

enum pen_status pen_tensor_data_async(struct pen_tensor_handle *tensor, pen_tensor_data_function *done, void *context,
                                      struct pen_error *reterr)
{
    tensor_hold(tensor);
    enum pen_status status = wish_add(&(struct wish){.tensor = tensor, .done = done, .context = context}, reterr);
    if (status != PEN_OK) {
        tensor_drop(tensor);
    }
    return status;
}

void reader_end(void)
{
    mutex_take(&lock);
    const bool was_running = running;
    ending = true;
    pthread_cond_signal(&changed);
    mutex_give(&lock);
    if (was_running) {
        pthread_join(thread, NULL);
    }
    mutex_take(&lock);
    running = ending = false;
    mutex_give(&lock);
}
