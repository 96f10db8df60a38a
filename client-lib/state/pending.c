#include "pending.h"

#include <string.h>

#include "assertion.h"
#include "deadline.h"
#include "job.h"

/* The counts are those of the list: cheap to tell at its ends. */
static void check_ends(const struct pending *p)
{
    PEN_ASSERT((p->count == 0) == !p->oldest && (p->count == 0) == !p->newest,
               "jobs are pending when they are counted");
    PEN_ASSERT(p->count > 0 || (p->bytes == 0 && !p->unsent),
               "where no job is pending, no bytes are, and none is unsent");
    PEN_ASSERT(!p->newest || p->newest->env.job.sequence <= p->last_sequence, "no job has a sequence yet to be given");
}

bool pending_whole(const struct pending *p)
{
    size_t count = 0;
    uint64_t bytes = 0, last = 0;
    bool carried = true;
    for (const struct pen_job *job = p->oldest; job; job = job->newer) {
        carried = carried && job != p->unsent;
        if (job->env.job.sequence <= last || job->state == (carried ? JOB_WAITS : JOB_SENT) || !job_pending(job)) {
            return false;
        }
        last = job->env.job.sequence;
        bytes += job->payload_bytes;
        count++;
    }
    return count == p->count && bytes == p->bytes && carried == !p->unsent;
}

void pending_init(struct pending *p)
{
    memset(p, 0, sizeof *p);
    p->next_deadline_us = DEADLINE_NONE;
}

static struct pen_job **bucket(struct pending *p, uint64_t sequence)
{
    return &p->buckets[sequence % PENDING_BUCKETS];
}

void pending_add(struct pending *p, struct pen_job *job)
{
    PEN_ASSERT(p->last_sequence < UINT64_MAX, "sequences do not wrap");
    job_enter(job, JOB_WAITS);
    job->env.job.sequence = ++p->last_sequence;
    job->older = p->newest;
    job->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = job;
    p->newest = job;
    p->unsent = p->unsent ? p->unsent : job;
    struct pen_job **head = bucket(p, job->env.job.sequence);
    job->bucket_next = *head;
    *head = job_retain(job);
    p->count++;
    p->bytes += job->payload_bytes;
    p->next_deadline_us = job->deadline_us < p->next_deadline_us ? job->deadline_us : p->next_deadline_us;
    check_ends(p);
}

struct pen_job *pending_find(const struct pending *p, uint64_t sequence)
{
    struct pen_job *job = p->buckets[sequence % PENDING_BUCKETS];
    while (job && job->env.job.sequence != sequence) {
        job = job->bucket_next;
    }
    return job;
}

void pending_remove(struct pending *p, struct pen_job *job)
{
    struct pen_job **at = bucket(p, job->env.job.sequence);
    PEN_ASSERT(job_pending(job), "only a job that awaits its answer is among the pending ones");
    while (*at && *at != job) {
        at = &(*at)->bucket_next;
    }
    PEN_ASSERT(*at == job, "a pending job is found by its sequence");
    PEN_ASSERT(p->count > 0 && p->bytes >= job->payload_bytes, "a pending job is counted, and its bytes are");
    *at = job->bucket_next;
    *(job->older ? &job->older->newer : &p->oldest) = job->newer;
    *(job->newer ? &job->newer->older : &p->newest) = job->older;
    p->unsent = p->unsent == job ? job->newer : p->unsent;
    job->older = job->newer = job->bucket_next = NULL;
    p->count--;
    p->bytes -= job->payload_bytes;
    check_ends(p);
    PEN_ASSERT_SLOW(pending_whole(p), "the others are pending as before");
}

void pending_sent(struct pending *p, struct pen_job *job)
{
    PEN_ASSERT(p->unsent == job, "jobs are sent in the order of their sequence");
    p->unsent = job->newer;
    job_enter(job, JOB_SENT);
    job->sends++;
    PEN_ASSERT(!p->unsent || p->unsent->state != JOB_SENT,
               "this connection has not carried those from the first unsent on");
}

uint64_t pending_answered(const struct pending *p)
{
    return p->oldest ? p->oldest->env.job.sequence - 1 : p->last_sequence;
}

struct pen_job *pending_expired(struct pending *p, uint64_t now_us)
{
    if (now_us < p->next_deadline_us) {
        return NULL;
    }
    uint64_t next = DEADLINE_NONE;
    for (struct pen_job *job = p->oldest; job; job = job->newer) {
        if (job->deadline_us <= now_us) {
            return job;
        }
        next = job->deadline_us < next ? job->deadline_us : next;
    }
    p->next_deadline_us = next;
    return NULL;
}

/* Those that a broker held back stay so until another has them. */
void pending_rewind(struct pending *p)
{
    for (struct pen_job *job = p->oldest; job != p->unsent; job = job->newer) {
        if (job->state == JOB_SENT) {
            job_enter(job, JOB_WAITS);
        }
    }
    p->unsent = p->oldest;
    PEN_ASSERT_SLOW(pending_whole(p), "after a lost connection every pending job is unsent");
}
