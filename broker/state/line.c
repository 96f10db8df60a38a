#include "line.h"

#include "assertion.h"

#define IN_RUN UINT32_MAX /* lane_place of jobs in the list; no heap is that large */

void line_init(struct line *line)
{
    TAILQ_INIT(&line->run);
    heap_init(&line->rest, job_before, offsetof(struct job, lane_place));
    line->count = 0;
}

void line_fini(struct line *line)
{
    heap_fini(&line->rest);
}

enum pen_status line_push(struct line *line, struct job *job)
{
    const struct job *last = TAILQ_LAST(&line->run, job_list);
    PEN_ASSERT(job->lane_place == 0, "a job stands in one line, and once");
    if (last && job_before(job, last)) {
        if (heap_push(&line->rest, job) != PEN_OK)
            return PEN_ERR_NO_MEMORY;
    } else {
        TAILQ_INSERT_TAIL(&line->run, job, in_group);
        job->lane_place = IN_RUN;
    }
    line->count++;
    return PEN_OK;
}

struct job *line_top(const struct line *line)
{
    struct job *first = TAILQ_FIRST(&line->run), *other = heap_top(&line->rest);
    return !first || (other && job_before(other, first)) ? other : first;
}

struct job *line_ranked(const struct line *line, uint64_t rank)
{
    struct job *job = rank > 0 ? TAILQ_FIRST(&line->run) : line_top(line);
    for (; job && rank > 0 && TAILQ_NEXT(job, in_group); rank--)
        job = TAILQ_NEXT(job, in_group);
    return job ? job : line_top(line);
}

/*
 * The job that will be first soon has not been touched since it came. In a long line its memory is not in the
 * processor's cache, and each wait for it costs more than all other work on a job.
 */
static void fetch_ahead(const struct line *line)
{
    const struct job *first = TAILQ_FIRST(&line->run), *second = first ? TAILQ_NEXT(first, in_group) : NULL;
    if (!second)
        return;
    if (first->request)
        __builtin_prefetch(first->request->frames);
    for (size_t at = 0; at < sizeof *second; at += 64)
        __builtin_prefetch((const char *)second + at);
}

void line_remove(struct line *line, struct job *job)
{
    PEN_ASSERT(line->count > line->rest.count || job->lane_place != IN_RUN,
               "a line has more jobs than its heap as long as its list has some");
    if (job->lane_place == IN_RUN) {
        TAILQ_REMOVE(&line->run, job, in_group);
        job->lane_place = 0;
        fetch_ahead(line);
    } else {
        heap_remove(&line->rest, job);
    }
    line->count--;
    PEN_ASSERT((line->count == line->rest.count) == TAILQ_EMPTY(&line->run),
               "a line's length is that of its list and its heap");
}
