/*
 * top_frame.h - what `penstock top` shows at one moment, as lines of text.
 *
 * Threads: owner.
 */
#ifndef TOP_FRAME_H
#define TOP_FRAME_H

#include "penstock/client.h"

#define TOP_LINES_MAX  512
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

enum pen_status top_view_take(pen_client *client, int64_t timeout_us, struct top_view *ret_view,
                              struct pen_error *reterr);
void top_view_fini(struct top_view *view);

/* before: the view one refresh ago, for rates; NULL or empty the first time. */
void top_frame_make(const struct top_view *view, const struct top_view *before, const char *broker,
                    struct top_frame *ret_frame);

#endif
