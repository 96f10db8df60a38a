/*
 * offload.h - threads for what may take long or block: the loop hands a task over and is told on its own thread when it is done.
 * Threads: owner - the loop's; `work` runs on one of the threads.
 */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include "penstock/status.h"

struct offload_task {
    struct offload_task *next;
    void (*work)(struct offload_task *task); /* on a thread of the pool */
    void (*done)(struct offload_task *task); /* on the loop's, by offload_dispatch */
};

struct offload;
enum pen_status offload_new(unsigned threads,
                            struct offload **ret_offload); /* NO_MEMORY: also no thread or descriptor */
void offload_free(struct offload *offload); /* waits for tasks that run; all that is done is told; NULL is fine */
void offload_add(struct offload *offload, struct offload_task *task); /* the task is lent until `done` */
int offload_fd(const struct offload *offload); /* readable: offload_dispatch has something to do */
void offload_dispatch(void *offload);

#endif
