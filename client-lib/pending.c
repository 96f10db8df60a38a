#include "pending.h"

#include <string.h>

#include "deadline.h"

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
}

struct pen_job *pending_find(const struct pending *p, uint64_t sequence)
{
    struct pen_job *job = p->buckets[sequence % PENDING_BUCKETS];
    while (job && job->env.job.sequence != sequence) {
        job = job->bucket_next;
    }
    return job;
}

struct pen_job *pending_remove(struct pending *p, struct pen_job *job)
{
    struct pen_job **at = bucket(p, job->env.job.sequence);
    while (*at != job) {
        at = &(*at)->bucket_next;
    }
    *at = job->bucket_next;
    *(job->older ? &job->older->newer : &p->oldest) = job->newer;
    *(job->newer ? &job->newer->older : &p->newest) = job->older;
    p->unsent = p->unsent == job ? job->newer : p->unsent;
    job->older = job->newer = job->bucket_next = NULL;
    p->count--;
    p->bytes -= job->payload_bytes;
    return job;
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

void pending_rewind(struct pending *p)
{
    p->unsent = p->oldest;
}
