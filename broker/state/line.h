/*
 * line.h - one client's jobs in a lane, by priority, deadline and arrival.
 *
 * Jobs nearly always come in the order in which they leave. Such jobs are in a list, where joining and leaving cost the
 * same for any length. A job that belongs before the last one of the list goes into a heap instead. The line's first
 * job is the first of the list or of the heap.
 * Threads: owner.
 */
#ifndef LINE_H
#define LINE_H

#include "heap.h"
#include "job.h"

struct line {
    struct job_list run; /* linked by in_group, which a queued job does not use otherwise */
    struct heap rest;
    size_t count;
};

void line_init(struct line *line);                             /* takes no memory */
void line_fini(struct line *line);                             /* the line must be empty */
enum pen_status line_push(struct line *line, struct job *job); /* NO_MEMORY: the job was not added */
struct job *line_top(const struct line *line);                 /* NULL if empty */
/* The job behind `rank` others, counting only the list; its last job when there are fewer. */
struct job *line_ranked(const struct line *line, uint64_t rank);
void line_remove(struct line *line, struct job *job); /* the job must be in the line */

#endif
