/*
 * annotate.h - what a worker reads out of outputs for a job that asks: the best classes of each row, with what config.json calls them.
 *
 * Threads: one-at-a-time (a slot's).
 */
#ifndef ANNOTATE_H
#define ANNOTATE_H

#include "job.pb-c.h"
#include "served.h"

#define ANNOTATE_BYTES_MAX (32u * 1024u) /* of the annotations of one result, packed */

/* The annotations of one result; names are borrowed from configs. */
struct annotations {
    Penstock__Class classes[CLASSES_MAX], *class_pointers[CLASSES_MAX];
    Penstock__Annotation rows[CLASSES_MAX], *row_pointers[CLASSES_MAX];
    size_t classes_count, rows_count;
    size_t bytes; /* packed, at most */
};

void annotations_clear(struct annotations *a);

/*
 * Adds the `top_k` best classes of each row of `scores`, the output `name` that `served` reads classes from (labels_output). Nothing is added for an output that is no
 * classifier's, or whose rows are not the job's. All rows get the same number: fewer than asked for where CLASSES_MAX or ANNOTATE_BYTES_MAX are used up.
 */
void annotations_add(struct annotations *a, const struct served *served, const char *name,
                     const struct pen_tensor *scores, uint32_t job_rows, uint32_t top_k);

/* Into the meta, which borrows them. */
void annotations_put(struct annotations *a, Penstock__ResultMeta *meta);

#endif
