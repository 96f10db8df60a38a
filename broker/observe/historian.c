#include "historian.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "mutex.h"

#define AGE_US     20000u
#define TIMEOUT_US 1000000u /* longer than the loop's longest sleep */
#define AGAIN_US   1000000u /* while the loop does not answer */

struct historian {
    struct post *post;
    pthread_t thread;
    pthread_mutex_t lock; /* guards history and now_us */
    struct history *history;
    uint64_t now_us; /* of the last snapshot */
};

static void note(struct historian *historian, const struct snapshot *snapshot)
{
    mutex_take(&historian->lock);
    history_add(historian->history, snapshot);
    historian->now_us = snapshot->taken_us;
    mutex_give(&historian->lock);
}

/* The time just after the end of the step, so that each step gets its point. */
static uint64_t until_next_us(uint64_t taken_us)
{
    return HISTORY_STEP_US - taken_us % HISTORY_STEP_US + 1000;
}

static void *historian_main(void *argument)
{
    struct historian *historian = argument;
    uint64_t wait_us = HISTORY_STEP_US; /* at the start there is nothing to record yet */
    while (post_sleep(historian->post, wait_us)) {
        struct snapshot *snapshot;
        enum pen_status status = post_get(historian->post, AGE_US, TIMEOUT_US, &snapshot);
        wait_us = AGAIN_US;
        if (status != PEN_OK)
            continue;
        post_withhold(historian->post, snapshot); /* otherwise a page made a moment later would get this old snapshot */
        note(historian, snapshot);
        wait_us = until_next_us(snapshot->taken_us);
        post_release(historian->post, snapshot);
    }
    return NULL;
}

/* Signals go to the loop. */
static bool thread_start(struct historian *historian)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&historian->thread, NULL, historian_main, historian) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct historian *historian_new(struct post *post)
{
    struct historian *historian = calloc(1, sizeof *historian);
    if (!historian || !(historian->history = history_new())) {
        free(historian);
        return NULL;
    }
    historian->post = post;
    mutex_init(&historian->lock);
    if (thread_start(historian))
        return historian;
    mutex_fini(&historian->lock);
    history_free(historian->history);
    free(historian);
    return NULL;
}

void historian_free(struct historian *historian)
{
    if (!historian)
        return;
    pthread_join(historian->thread, NULL);
    mutex_fini(&historian->lock);
    history_free(historian->history);
    free(historian);
}

bool historian_tell(struct historian *historian, const char *name, uint64_t version, struct writer *writer)
{
    size_t count = 0;
    uint64_t now_us = 0;
    struct history_point *points = malloc(HISTORY_STEPS * sizeof *points);
    if (!points)
        return false;
    if (historian) {
        mutex_take(&historian->lock);
        now_us = historian->now_us;
        history_points(historian->history, name, version, now_us, points, &count); /* 0 points of a model not known */
        mutex_give(&historian->lock);
    }
    history_json(points, count, now_us, writer);
    free(points);
    return true;
}
