#include "job.h"

#include "assertion.h"

#include <stdlib.h>
#include <string.h>

#define SPARES_MAX 256u /* enough for the changes of a busy minute; more would keep memory that the system could use */

const char *job_state_name(enum job_state state)
{
    static const char *const names[] = {"lookup",     "queued", "held",   "following",
                                        "dispatched", "steps",  "handed", "done"};
    _Static_assert(sizeof names / sizeof names[0] == JOB_DONE + 1, "each state has a name");
    return names[state];
}

bool job_before(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (x->deadline_us != y->deadline_us)
        return x->deadline_us < y->deadline_us;
    return x->arrival < y->arrival;
}

bool job_deadline_before(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    return x->deadline_us < y->deadline_us;
}

enum pen_status jobs_init(struct jobs *jobs)
{
    *jobs = (struct jobs){0};
    enum pen_status status = table_init(&jobs->by_id);
    return status == PEN_OK ? table_init(&jobs->notes) : status;
}

static void spares_free(struct jobs *jobs)
{
    while (jobs->spare) {
        struct job *job = jobs->spare;
        jobs->spare = job->in_group.tqe_next;
        free(job);
    }
    jobs->spares = 0;
}

void jobs_settle(struct jobs *jobs)
{
    spares_free(jobs);
    table_settle(&jobs->by_id);
    table_settle(&jobs->notes);
}

void jobs_fini(struct jobs *jobs)
{
    spares_free(jobs);
    table_fini(&jobs->notes);
    table_fini(&jobs->by_id);
}

/*
 * A client's sequence numbers come and go in order, so runs of 16 share a cache line of the table's tags and a job is
 * found without waiting for memory. The seed keeps secret where a run lies.
 */
static uint64_t hash_of(const struct jobs *jobs, struct job_id id)
{
    return (table_hash(&jobs->by_id, id.client, id.sequence >> 4) << 4) | (id.sequence & 15);
}

struct job *jobs_find(const struct jobs *jobs, struct job_id id)
{
    struct table_node *node = table_first(&jobs->by_id, hash_of(jobs, id));
    for (; node; node = table_next(&jobs->by_id, node)) {
        struct job *job = table_entry(node, struct job, by_id);
        if (job_id_equal(job->id, id))
            return job;
    }
    return NULL;
}

static struct job *take_spare(struct jobs *jobs)
{
    struct job *job = jobs->spare;
    if (!job)
        return malloc(sizeof *job);
    PEN_ASSERT(jobs->spares > 0, "spare records are counted");
    jobs->spare = job->in_group.tqe_next;
    jobs->spares--;
    return job;
}

struct job *jobs_new(struct jobs *jobs, struct job_id id)
{
    PEN_ASSERT_SLOW(!jobs_find(jobs, id), "no two jobs have one id");
    struct job *job = take_spare(jobs);
    if (!job)
        return NULL;
    memset(job, 0, sizeof *job);
    job->id = id;
    job->deadline_us = DEADLINE_NONE;
    job->rows = 1;
    table_insert(&jobs->by_id, &job->by_id, hash_of(jobs, id));
    return job;
}

/* ---- notes ---- */

struct kept_note {
    struct table_node by_id;
    struct job_id id;
    struct trace_note note;
};

static struct kept_note *note_find(const struct jobs *jobs, struct job_id id)
{
    struct table_node *node = table_first(&jobs->notes, table_hash(&jobs->notes, id.client, id.sequence));
    for (; node; node = table_next(&jobs->notes, node)) {
        struct kept_note *kept = table_entry(node, struct kept_note, by_id);
        if (job_id_equal(kept->id, id))
            return kept;
    }
    return NULL;
}

const struct trace_note *jobs_noted(const struct jobs *jobs, const struct job *job)
{
    const struct kept_note *kept = job->noted ? note_find(jobs, job->id) : NULL;
    return kept ? &kept->note : NULL;
}

struct trace_note *jobs_note(struct jobs *jobs, struct job *job)
{
    struct kept_note *kept = job->noted ? note_find(jobs, job->id) : calloc(1, sizeof *kept);
    if (!kept || job->noted)
        return kept ? &kept->note : NULL;
    kept->id = job->id;
    table_insert(&jobs->notes, &kept->by_id, table_hash(&jobs->notes, job->id.client, job->id.sequence));
    job->noted = true;
    return &kept->note;
}

static void note_free(struct jobs *jobs, struct job *job)
{
    struct kept_note *kept = note_find(jobs, job->id);
    if (!kept)
        return;
    table_remove(&jobs->notes, &kept->by_id);
    free(kept);
    job->noted = false;
}

void jobs_free(struct jobs *jobs, struct job *job)
{
    PEN_ASSERT(job->lane_place == 0 && job->deadline_place == 0 && !job->turn,
               "a job that is freed is in no lane and waits for no deadline");
    PEN_ASSERT(!job->flight && !job->dispatch, "a job that is freed runs nowhere and follows nobody");
    table_remove(&jobs->by_id, &job->by_id);
    shared_message_release(job->request);
    if (job->noted)
        note_free(jobs, job);
    if (jobs->spares >= SPARES_MAX) {
        free(job);
        return;
    }
    job->in_group.tqe_next = jobs->spare;
    jobs->spare = job;
    jobs->spares++;
}
