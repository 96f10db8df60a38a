/*
 * top_frame.h - what `penstock top` shows at one moment, as lines of text.
 *
 * Threads: owner.
 */
#ifndef TOP_FRAME_H
#define TOP_FRAME_H

#include "penstock/client.h"

#define TOP_LINES_MAX  1536 /* 1024 workers, 256 models */
#define TOP_LINE_BYTES 256

/* The pool at one moment; any part may be NULL when the broker did not answer. */
struct top_view {
    struct pen_stats *stats;
    struct pen_model_list *models;
    struct pen_worker_list *workers;
    uint64_t taken_us;
};

struct top_frame {
    size_t count;
    char lines[TOP_LINES_MAX][TOP_LINE_BYTES];
    bool heading[TOP_LINES_MAX]; /* to be shown in reverse */
};

/* What rows come first, and which are shown. */
enum top_sort { TOP_BY_NAME, TOP_BY_BUSY, TOP_BY_RATE, TOP_BY_FAILED, TOP_SORTS };
const char *top_sort_name(enum top_sort by); /* "name", "busy", "rate", "failed" */
enum top_sort top_sort_parse(const char *name);

struct top_order {
    enum top_sort by; /* busy: models by waiting and running jobs, workers by running ones; rate: jobs per second */
    bool reverse;
    char filter[64]; /* part of a model's, worker's, backend's or host's name, any case; "" = all */
};

enum pen_status top_view_take(pen_client *client, int64_t timeout_us, struct top_view *ret_view,
                              struct pen_error *reterr);
void top_view_fini(struct top_view *view);

/* before: the view one refresh ago, for rates; NULL or empty the first time. */
void top_frame_make(const struct top_view *view, const struct top_view *before, const char *broker,
                    const struct top_order *order, struct top_frame *ret_frame);

#endif
