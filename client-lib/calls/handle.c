/* handle.c - what a handle can do: wait, poll, cancel, free; and the descriptor and the turn of those who live by callbacks. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "assertion.h"
#include "deadline.h"
#include "drive.h"
#include "finish.h"
#include "job.h"
#include "result.h"
#include "session.h"

enum pen_status pen_job_wait(pen_job *job, int64_t timeout_us, pen_result **ret_result, struct pen_error *reterr)
{
    struct pen_client *c = job->client;
    uint64_t limit = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    if (job->callback) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job has a callback: its result goes there.");
    }
    pthread_mutex_lock(&c->lock);
    if (!job->ended && timeout_us == 0) {
        drive_once(c);
    } else {
        drive_until(c, &job->ended, limit);
    }
    bool ended = job->ended;
    struct pen_result *result = job->state == JOB_ENDED ? job_take_result(job) : NULL;
    pthread_mutex_unlock(&c->lock);
    if (!ended) {
        return pen_error_set(reterr, PEN_ERR_TIMEOUT, "the job has not ended within %lld us.", (long long)timeout_us);
    }
    if (!result) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job's result was taken before.");
    }
    *ret_result = result;
    return PEN_OK;
}

bool pen_job_poll(pen_job *job)
{
    struct pen_client *c = job->client;
    pthread_mutex_lock(&c->lock);
    if (!job->ended) {
        drive_once(c);
    }
    bool ended = job->ended;
    pthread_mutex_unlock(&c->lock);
    return ended;
}

bool pen_job_hold(pen_job *job, struct pen_hold *ret_hold, size_t struct_bytes)
{
    struct pen_client *c = job->client;
    struct pen_hold hold = {.reason = PEN_HOLD_NONE};
    pthread_mutex_lock(&c->lock);
    if (!job->ended) {
        drive_once(c);
    }
    if (job->hold != PEN_HOLD_NONE) {
        hold = (struct pen_hold){
            .reason = job->hold, .expect_us = job->hold_expect_us, .told_us = clock_now_us() - job->hold_us};
    }
    pthread_mutex_unlock(&c->lock);
    memset(ret_hold, 0, struct_bytes);
    memcpy(ret_hold, &hold, struct_bytes < sizeof hold ? struct_bytes : sizeof hold);
    return hold.reason != PEN_HOLD_NONE;
}

void pen_job_cancel(pen_job *job)
{
    struct pen_client *c = job->client;
    pthread_mutex_lock(&c->lock);
    if (!job->ended) {
        session_cancel(c, job);
        drive_kick(c);
        drive_changed(c);
    }
    pthread_mutex_unlock(&c->lock);
}

const char *pen_job_id(const pen_job *job, char text[PEN_JOB_ID_BYTES])
{
    return job_id_text(job->env.job, text);
}

void pen_job_free(pen_job *job)
{
    if (!job) {
        return;
    }
    struct pen_client *c = job->client;
    pthread_mutex_lock(&c->lock);
    PEN_ASSERT(!job->abandoned, "a handle is freed once");
    job->abandoned = true;
    if (!job->ended) {
        session_cancel(c, job);
        drive_kick(c);
    }
    pthread_mutex_unlock(&c->lock);
    job_release(job);
}

/* With the lock. */
static int finished_fd(pen_client *c)
{
    if (c->finished_fd < 0) {
        c->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (c->finished_any) {
            finish_ring(c);
        }
    }
    return c->finished_fd;
}

int pen_client_fd(pen_client *c)
{
    pthread_mutex_lock(&c->lock);
    int fd = finished_fd(c);
    if (fd >= 0 && !c->keeper_drives) {
        c->keeper_drives = true;
        c->keeper_until_us = 0;
        pthread_cond_signal(&c->keeper_cond);
    }
    pthread_mutex_unlock(&c->lock);
    return fd;
}

int pen_client_loop_fd(pen_client *c)
{
    struct epoll_event event = {.events = EPOLLIN};
    pthread_mutex_lock(&c->lock);
    int finished = finished_fd(c), fd = finished >= 0 ? link_watch(&c->link) : -1;
    if (fd >= 0 && !c->loop_drives) {
        epoll_ctl(fd, EPOLL_CTL_ADD, finished, &event);
        finish_ring(c); /* what came before is looked at */
        c->loop_drives = true;
    }
    pthread_mutex_unlock(&c->lock);
    return fd;
}

void pen_client_loop_busy(pen_client *c, bool busy)
{
    pthread_mutex_lock(&c->lock);
    drive_loop_busy(c, busy);
    pthread_mutex_unlock(&c->lock);
}

/* Messages that are there now; the descriptor may have rung for them alone. */
static void look(pen_client *c)
{
    finish_hush(c);
    c->dispatching = true;
    drive_once(c);
    c->dispatching = false;
}

int pen_client_dispatch(pen_client *c, int64_t timeout_us)
{
    uint64_t limit = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    int called = 0;
    pthread_mutex_lock(&c->lock);
    if (!c->finished_any && timeout_us == 0) {
        look(c);
    } else {
        drive_until(c, &c->finished_any, limit);
    }
    /* As many as there are now: a callback that submits again must not keep us for ever. */
    for (size_t n = c->finished_count; n > 0; n--) {
        struct pen_job *job = finish_take(c);
        if (!job) {
            break; /* another thread dispatches too */
        }
        struct pen_result *result = job->abandoned ? NULL : job_take_result(job);
        pthread_mutex_unlock(&c->lock);
        if (result) {
            job->callback(job, result, job->callback_arg);
            called++;
        }
        job_release(job);
        pthread_mutex_lock(&c->lock);
    }
    if (c->finished_any) {
        finish_ring(c);
    }
    pthread_mutex_unlock(&c->lock);
    return called;
}
