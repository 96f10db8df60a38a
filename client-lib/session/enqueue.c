#include "enqueue.h"

#include "assertion.h"
#include "finish.h"
#include "job.h"
#include "words.h"

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

/* What a job of a sequence needs to say which one it follows; all that enqueueing can fail for, apart from the limits. */
static enum pen_status reserve(struct pen_client *c, const struct pen_job *job, struct pen_error *reterr)
{
    if (job->env.sequence_id == 0 ||
        predecessors_reserve(&c->predecessors, job->env.model_hash, job->env.sequence_id)) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a job of a sequence.");
}

/* Room for all of them. */
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

static void enqueue(struct pen_client *c, struct pen_job *job)
{
    uint64_t before = c->pending.last_sequence;
    follow(c, job);
    job->env.job.client = c->session.uuid;
    pending_add(&c->pending, job);
    PEN_ASSERT(job->env.job.sequence == before + 1, "a job gets the number that its sequence was told");
    finish_expect(c, job);
}

enum pen_status enqueue_jobs(struct pen_client *c, struct pen_job *const *jobs, size_t count, struct pen_error *reterr)
{
    enum pen_status status = admit_all(c, jobs, count, reterr);
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = reserve(c, jobs[i], reterr);
    }
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        enqueue(c, jobs[i]);
    }
    PEN_ASSERT(status != PEN_OK || (c->pending.count <= c->jobs_max && c->pending.bytes <= c->bytes_max),
               "no more jobs are pending than the client's limits allow");
    return status;
}
