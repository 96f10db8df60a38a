/*
 * warmup.h - a model is ready when it has been executed, not when it has been loaded.
 *
 * Every declared batch size (1, the preferred ones, max_batch_size) and every entry of model_warmup is run on each slot's session; the first slot's
 * times are kept and advertised. Threads: one-at-a-time.
 */
#ifndef WARMUP_H
#define WARMUP_H

#include "served.h"

/* One set of input shapes to warm. */
struct warm_shape {
    uint32_t batch; /* 0 when the model has no batch dimension */
    struct pen_tensor inputs[SERVED_TENSORS_MAX];
};

/*
 * Concrete shapes for `batch` rows; `entry` (may be NULL) gives the dims that the signature leaves open. UNSUPPORTED
 * names the first dimension that stays open: the worker serves such a model without warm-up until model_warmup gives
 * the dimension.
 */
enum pen_status warmup_shape(const struct served *served, uint32_t batch, const struct config_warmup *entry,
                             struct warm_shape *ret_shape, struct pen_error *reterr);

/* The entry of model_warmup that counts for this batch size; NULL = none. */
const struct config_warmup *warmup_entry(const struct served *served, uint32_t batch);

/* The batch sizes to warm, ascending, each once. Returns their number, at most BATCH_SHAPE_WARM_MAX. */
size_t warmup_batches(const struct served *served, uint32_t ret_batches[BATCH_SHAPE_WARM_MAX]);

/* Makes a session for each of `slots` slots and warms it up; writes the times of the first one to `served`. */
enum pen_status warmup_run(struct served *served, uint32_t slots, struct pen_error *reterr);

/* The same for a model that was warm before and sleeps no more: makes the sessions, runs nothing, keeps the times. */
enum pen_status warmup_again(struct served *served, uint32_t slots, struct pen_error *reterr);

/*
 * After a warm-up without helper threads: measures how much faster the smallest size runs with the helpers, and takes
 * that off all times. Runs each size twice instead of three times, because these runs slow the jobs that are being
 * served.
 */
enum pen_status warmup_helped(struct served *served, struct pen_error *reterr);

#endif
