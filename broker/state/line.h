/*
 * line.h - one client's jobs in a lane, by priority, deadline and arrival.
 *
 * Jobs nearly always come in the order in which they leave: those stand in a list, and joining and leaving cost the same whatever its length. Only one that
 * belongs before the last of the list goes into a heap beside it; the first of both is the first of all.
 * Threads: owner.
 */
#ifndef LINE_H
#define LINE_H

#include "heap.h"
#include "job.h"

struct line {
    struct job_list run; /* by in_group, which a queued job has no other use for */
    struct heap rest;
    size_t count;
};

void line_init(struct line *line);                             /* takes no memory */
void line_fini(struct line *line);                             /* it is empty */
enum pen_status line_push(struct line *line, struct job *job); /* NO_MEMORY: it is not in */
struct job *line_top(const struct line *line);                 /* NULL if empty */
/* The job behind `rank` others, as far as they came in order; the last of those when there are fewer. */
struct job *line_ranked(const struct line *line, uint64_t rank);
void line_remove(struct line *line, struct job *job); /* which is in it */

#endif
