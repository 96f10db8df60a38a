/*
 * annotate.h - for a job that asks for it: the best classes of each row of an output, with their names from
 * config.json.
 *
 * Threads: one-at-a-time (a slot's).
 */
#ifndef ANNOTATE_H
#define ANNOTATE_H

#include "job.pb-c.h"
#include "served.h"

#define ANNOTATE_BYTES_MAX (32u * 1024u) /* limit for the packed annotations of one result */

/* The annotations of one result; names are borrowed from configs. */
struct annotations {
    Penstock__Class classes[CLASSES_MAX], *class_pointers[CLASSES_MAX];
    Penstock__Annotation rows[CLASSES_MAX], *row_pointers[CLASSES_MAX];
    size_t classes_count, rows_count;
    size_t bytes; /* upper bound of the packed size */
};

void annotations_clear(struct annotations *a);

/*
 * Adds the `top_k` best classes of each row of `scores`. `name` is the output; `served` reads classes from one output
 * (labels_output). Adds nothing when the output is no classifier's, or when its rows are not the job's. All rows get
 * the same number of classes: fewer than top_k when CLASSES_MAX or ANNOTATE_BYTES_MAX is reached.
 */
void annotations_add(struct annotations *a, const struct served *served, const char *name,
                     const struct pen_tensor *scores, uint32_t job_rows, uint32_t top_k);

/* Adds them to the meta, which borrows them. */
void annotations_put(struct annotations *a, Penstock__ResultMeta *meta);

#endif
