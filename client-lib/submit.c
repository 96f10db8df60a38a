/* submit.c - the three ways to run a job, and what a handle can do. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "core.h"
#include "deadline.h"
#include "drive.h"
#include "finish.h"
#include "job.h"
#include "result.h"
#include "session.h"
#include "words.h"

#define SENT_GRACE_US 2000u /* after the answer ZeroMQ drops its last references within microseconds */

void pen_job_options_init(struct pen_job_options *options, size_t struct_bytes)
{
    memset(options, 0, struct_bytes);
    options->struct_bytes = struct_bytes;
}

/* Fields that a caller built against an older header does not have are zero. */
static struct pen_job_options options_known(const struct pen_job_options *options)
{
    struct pen_job_options known;
    size_t bytes = options->struct_bytes < sizeof known ? options->struct_bytes : sizeof known;
    memset(&known, 0, sizeof known);
    memcpy(&known, options, bytes);
    return known;
}

static enum pen_status admit(struct pen_client *c, const struct pen_job *job, struct pen_error *reterr)
{
    if (c->session.state == SESSION_REFUSED) {
        return pen_error_set(reterr, c->session.refusal.status, "%s", c->session.refusal.text);
    }
    if (c->pending.count >= c->jobs_max) {
        return pen_error_set(reterr, PEN_ERR_BUSY, "%zu %s, its limit; wait for some or raise jobs_max.",
                             c->pending.count,
                             words_plural(c->pending.count, "job of this client awaits its answer",
                                          "jobs of this client await answers"));
    }
    if (c->pending.bytes + job->payload_bytes > c->bytes_max) {
        return pen_error_set(
            reterr, PEN_ERR_BUSY,
            "%llu bytes of this client's jobs await answers, %zu more exceed its limit bytes_max of %llu.",
            (unsigned long long)c->pending.bytes, job->payload_bytes, (unsigned long long)c->bytes_max);
    }
    return PEN_OK;
}

/*
 * The number that the job is about to get is the next one of its sequence. A job that goes on with what is not known to have begun names itself, which no
 * open sequence can follow.
 */
static void follow(struct pen_client *c, struct pen_job *job)
{
    uint64_t number = c->pending.last_sequence + 1;
    if (job->env.sequence_id == 0) {
        return;
    }
    uint64_t before = predecessors_next(&c->predecessors, job->env.model_hash, job->env.sequence_id, number);
    job_follow(job, before == 0 && !(job->env.flags & FRAME_FLAG_SEQUENCE_START) ? number : before);
}

/* Lock held. What a job of a sequence needs to say which one it follows; all that enqueueing can fail for, apart from the limits. */
static enum pen_status reserve(struct pen_client *c, const struct pen_job *job, struct pen_error *reterr)
{
    if (job->env.sequence_id == 0 ||
        predecessors_reserve(&c->predecessors, job->env.model_hash, job->env.sequence_id)) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a job of a sequence.");
}

/* Lock held. */
static enum pen_status enqueue(struct pen_client *c, struct pen_job *job, struct pen_error *reterr)
{
    enum pen_status status = admit(c, job, reterr);
    if (status == PEN_OK) {
        status = reserve(c, job, reterr);
    }
    if (status == PEN_OK) {
        follow(c, job);
        job->env.job.client = c->session.uuid;
        pending_add(&c->pending, job);
        finish_expect(c, job);
        c->counters.jobs_submitted++;
    }
    return status;
}

static enum digest_kind digest_kind_now(struct pen_client *c)
{
    pthread_mutex_lock(&c->lock);
    enum digest_kind kind = c->session.digest_kind;
    pthread_mutex_unlock(&c->lock);
    return kind;
}

/*
 * Borrowed inputs must be nobody's when run() returns. After an answer they are: the answer followed the bytes. After a deadline or
 * cancellation they may lie unsent in the socket; a new connection drops them (the other jobs are sent again under their ids).
 */
static void borrowed_back(struct pen_client *c, struct payload *payload)
{
    static const struct timespec nap = {.tv_nsec = 100000};
    uint64_t patience = clock_now_us() + SENT_GRACE_US;
    while (payload && !payload_alone(payload)) {
        if (clock_now_us() > patience) {
            pthread_mutex_lock(&c->lock);
            if (!c->driving) {
                session_lost(c, clock_now_us());
                session_tick(c, clock_now_us());
                patience = DEADLINE_NONE;
            } else {
                c->session.drop_wanted = true;
                drive_changed(c);
                patience = clock_now_us() + SENT_GRACE_US;
            }
            pthread_mutex_unlock(&c->lock);
        }
        nanosleep(&nap, NULL);
    }
    payload_drop(payload);
}

enum pen_status pen_client_run(pen_client *c, const struct pen_job_options *options, pen_result **ret_result,
                               struct pen_error *reterr)
{
    struct pen_job *job = NULL;
    struct pen_job_options known = options_known(options);
    known.callback = NULL;
    enum pen_status status = job_new(c, &known, true, NULL, NULL, digest_kind_now(c), &job, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct payload *payload = payload_retain(job->payload);
    pthread_mutex_lock(&c->lock);
    status = enqueue(c, job, reterr);
    if (status == PEN_OK) {
        if (c->driving) {
            drive_kick(c);
        }
        drive_until(c, &job->ended, DEADLINE_NONE);
    }
    pthread_mutex_unlock(&c->lock);
    if (status == PEN_OK) {
        status = pen_result_status(job->result);
        borrowed_back(c, payload);
        if (status == PEN_OK) {
            *ret_result = job->result;
            job->result = NULL;
        } else {
            pen_error_set(reterr, status, "%s", pen_result_error(job->result));
        }
    } else {
        payload_drop(payload);
    }
    job_release(job);
    return status;
}

/* A job that is not enqueued yet. */
static enum pen_status job_make(struct pen_client *c, const struct pen_job_options *options, bool handle,
                                struct pen_job **ret_job, struct pen_error *reterr)
{
    struct pen_job_options known = options_known(options);
    if (!handle && !known.callback) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "a job without a callback needs a handle to wait for.");
    }
    bool borrow = known.flags & PEN_JOB_BORROW;
    if (borrow && !known.release) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "PEN_JOB_BORROW needs a release function.");
    }
    return job_new(c, &known, borrow, borrow ? known.release : NULL, known.release_arg, digest_kind_now(c), ret_job,
                   reterr);
}

/* `release` is not called: nothing has happened. */
static void job_unmake(struct pen_job *job)
{
    payload_forget_release(job->payload);
    job_release(job);
}

enum pen_status pen_client_submit(pen_client *c, const struct pen_job_options *options, pen_job **ret_job,
                                  struct pen_error *reterr)
{
    struct pen_job *job = NULL;
    enum pen_status status = job_make(c, options, ret_job != NULL, &job, reterr);
    if (status != PEN_OK) {
        return status;
    }
    pthread_mutex_lock(&c->lock);
    status = enqueue(c, job, reterr);
    if (status == PEN_OK) {
        drive_kick(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (status != PEN_OK) {
        job_unmake(job);
    } else if (ret_job) {
        *ret_job = job;
    } else {
        job_release(job);
    }
    return status;
}

/* Lock held. Room for all of them; enqueue then takes each. */
static enum pen_status admit_all(struct pen_client *c, struct pen_job *const *jobs, size_t count,
                                 struct pen_error *reterr)
{
    uint64_t bytes = c->pending.bytes;
    enum pen_status status = admit(c, jobs[0], reterr); /* a refused session, a full one */
    for (size_t i = 0; i < count; i++) {
        bytes += jobs[i]->payload_bytes;
    }
    if (status == PEN_OK && (c->pending.count + count > c->jobs_max || bytes > c->bytes_max)) {
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%zu %s more of together %llu bytes %s this client's limits jobs_max or bytes_max.", count,
                             words_plural(count, "job", "jobs"), (unsigned long long)(bytes - c->pending.bytes),
                             words_plural(count, "exceeds", "exceed"));
    }
    return status;
}

static enum pen_status enqueue_all(struct pen_client *c, struct pen_job *const *jobs, size_t count,
                                   struct pen_error *reterr)
{
    pthread_mutex_lock(&c->lock);
    enum pen_status status = admit_all(c, jobs, count, reterr);
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = reserve(c, jobs[i], reterr);
    }
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = enqueue(c, jobs[i], reterr);
    }
    if (status == PEN_OK) {
        drive_kick(c);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* The array is walked in steps of its first element's size. */
static enum pen_status same_size(const struct pen_job_options *first, const struct pen_job_options *one,
                                 struct pen_error *reterr)
{
    if (one->struct_bytes == first->struct_bytes) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "its options have struct_bytes %zu, those of job 0 have %zu.",
                         one->struct_bytes, first->struct_bytes);
}

enum pen_status pen_client_submit_many(pen_client *c, const struct pen_job_options *options, size_t count,
                                       pen_job **ret_jobs, struct pen_error *reterr)
{
    size_t made = 0;
    if (count == 0 || count > PEN_SUBMIT_MANY_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%zu jobs at once; 1 to %d are allowed.", count,
                             PEN_SUBMIT_MANY_MAX);
    }
    if (!options || options->struct_bytes == 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "no options, or their struct_bytes is 0; begin with pen_job_options_init().");
    }
    struct pen_job **jobs = calloc(count, sizeof *jobs);
    enum pen_status status = jobs ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu jobs.", count);
    for (; made < count && status == PEN_OK; made += status == PEN_OK) {
        const void *one = (const char *)options + made * options->struct_bytes;
        struct pen_error error = {.status = PEN_OK, .text = ""};
        status = same_size(options, one, &error);
        status = status == PEN_OK ? job_make(c, one, ret_jobs != NULL, &jobs[made], &error) : status;
        if (status != PEN_OK) {
            pen_error_set(reterr, status, "job %zu of %zu: %.400s", made, count, error.text);
        }
    }
    if (status == PEN_OK) {
        status = enqueue_all(c, jobs, count, reterr);
    }
    for (size_t i = 0; i < made; i++) {
        if (status != PEN_OK) {
            job_unmake(jobs[i]);
        } else if (ret_jobs) {
            ret_jobs[i] = jobs[i];
        } else {
            job_release(jobs[i]);
        }
    }
    free(jobs);
    return status;
}

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
    bool ended = job->ended, taken = job->taken;
    job->taken |= ended;
    pthread_mutex_unlock(&c->lock);
    if (!ended) {
        return pen_error_set(reterr, PEN_ERR_TIMEOUT, "the job has not ended within %lld us.", (long long)timeout_us);
    }
    if (taken) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job's result was taken before.");
    }
    *ret_result = job->result;
    job->result = NULL;
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
    job->abandoned = true;
    if (!job->ended) {
        session_cancel(c, job);
        drive_kick(c);
    }
    pthread_mutex_unlock(&c->lock);
    job_release(job);
}

int pen_client_fd(pen_client *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->finished_fd < 0) {
        c->finished_fd = eventfd(c->finished_any ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (c->finished_fd >= 0 && !c->keeper_drives) {
        c->keeper_drives = true;
        c->keeper_until_us = 0;
        pthread_cond_signal(&c->keeper_cond);
    }
    int fd = c->finished_fd;
    pthread_mutex_unlock(&c->lock);
    return fd;
}

int pen_client_dispatch(pen_client *c, int64_t timeout_us)
{
    uint64_t limit = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    int called = 0;
    pthread_mutex_lock(&c->lock);
    if (!c->finished_any && timeout_us == 0) {
        drive_once(c);
    } else {
        drive_until(c, &c->finished_any, limit);
    }
    /* As many as there are now: a callback that submits again must not keep us for ever. */
    for (size_t n = c->finished_count; n > 0; n--) {
        struct pen_job *job = finish_take(c);
        if (!job) {
            break; /* another thread dispatches too */
        }
        struct pen_result *result = job->abandoned ? NULL : job->result;
        job->result = result ? NULL : job->result;
        pthread_mutex_unlock(&c->lock);
        if (result) {
            job->callback(job, result, job->callback_arg);
            called++;
        }
        job_release(job);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return called;
}
