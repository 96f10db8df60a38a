#include "offload.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct task_queue {
    struct offload_task *first, **end;
};

struct offload {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct task_queue waiting, done;
    bool ending;
    int fd;
    unsigned count;
    pthread_t threads[];
};

static void put(struct task_queue *queue, struct offload_task *task)
{
    task->next = NULL;
    *queue->end = task;
    queue->end = &task->next;
}

static struct offload_task *take(struct task_queue *queue)
{
    struct offload_task *task = queue->first;
    if (task && !(queue->first = task->next))
        queue->end = &queue->first;
    return task;
}

static void ring(const struct offload *offload)
{
    uint64_t one = 1;
    (void)!write(offload->fd, &one, sizeof one);
}

static void *thread_main(void *context)
{
    struct offload *offload = context;
    struct offload_task *task;
    pthread_mutex_lock(&offload->lock);
    for (;;) {
        while (!(task = take(&offload->waiting)) && !offload->ending)
            pthread_cond_wait(&offload->wake, &offload->lock);
        if (!task)
            break;
        pthread_mutex_unlock(&offload->lock);
        task->work(task);
        pthread_mutex_lock(&offload->lock);
        put(&offload->done, task);
        ring(offload);
    }
    pthread_mutex_unlock(&offload->lock);
    return NULL;
}

enum pen_status offload_new(unsigned threads, struct offload **ret_offload)
{
    struct offload *offload = calloc(1, sizeof *offload + threads * sizeof offload->threads[0]);
    if (!offload)
        return PEN_ERR_NO_MEMORY;
    pthread_mutex_init(&offload->lock, NULL);
    pthread_cond_init(&offload->wake, NULL);
    offload->waiting.end = &offload->waiting.first;
    offload->done.end = &offload->done.first;
    offload->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    while (offload->fd >= 0 && offload->count < threads &&
           pthread_create(&offload->threads[offload->count], NULL, thread_main, offload) == 0)
        offload->count++;
    if (offload->count == threads) {
        *ret_offload = offload;
        return PEN_OK;
    }
    offload_free(offload);
    return PEN_ERR_NO_MEMORY;
}

void offload_free(struct offload *offload)
{
    if (!offload)
        return;
    pthread_mutex_lock(&offload->lock);
    offload->ending = true;
    pthread_cond_broadcast(&offload->wake);
    pthread_mutex_unlock(&offload->lock);
    for (unsigned i = 0; i < offload->count; i++)
        pthread_join(offload->threads[i], NULL);
    offload_dispatch(offload);
    if (offload->fd >= 0)
        close(offload->fd);
    pthread_cond_destroy(&offload->wake);
    pthread_mutex_destroy(&offload->lock);
    free(offload);
}

void offload_add(struct offload *offload, struct offload_task *task)
{
    pthread_mutex_lock(&offload->lock);
    put(&offload->waiting, task);
    pthread_cond_signal(&offload->wake);
    pthread_mutex_unlock(&offload->lock);
}

int offload_fd(const struct offload *offload)
{
    return offload->fd;
}

void offload_dispatch(void *context)
{
    struct offload *offload = context;
    struct offload_task *task;
    uint64_t count;
    (void)!read(offload->fd, &count, sizeof count);
    for (;;) {
        pthread_mutex_lock(&offload->lock);
        task = take(&offload->done);
        pthread_mutex_unlock(&offload->lock);
        if (!task)
            return;
        task->done(task);
    }
}
