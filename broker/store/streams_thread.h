/*
 * streams_thread.h - the two mail boxes between the broker's thread and the thread that talks to Redis, and the body of
 * that thread.
 * Threads: box_*: any. streams_run: its own.
 */
#ifndef STREAMS_THREAD_H
#define STREAMS_THREAD_H

#include <pthread.h>

#include "streams.h"

struct box {
    pthread_mutex_t lock;
    struct note_list notes;
    int event; /* readable when the box has notes */
};

enum pen_status box_init(struct box *box);
void box_fini(struct box *box); /* frees what is in it */
void box_put(struct box *box, struct note *note);
struct note *box_take(struct box *box); /* NULL = empty */

struct streams {
    struct streams_options options;
    struct box in, out; /* to the thread; from it */
    pthread_t thread;
};

void *streams_run(void *streams); /* borrowed until it was joined */

#endif
