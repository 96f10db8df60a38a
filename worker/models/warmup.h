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
    uint32_t batch; /* 0 when the model is not batched */
    struct pen_tensor inputs[SERVED_TENSORS_MAX];
};

/*
 * Concrete shapes of `batch` rows; `entry` (may be NULL) gives what the signature leaves open. UNSUPPORTED names the first dimension that
 * stays open: such a model is served cold until model_warmup says more.
 */
enum pen_status warmup_shape(const struct served *served, uint32_t batch, const struct config_warmup *entry,
                             struct warm_shape *ret_shape, struct pen_error *reterr);

/* The batch sizes to warm, ascending, each once. Returns their number, at most BATCH_SHAPE_WARM_MAX. */
size_t warmup_batches(const struct served *served, uint32_t ret_batches[BATCH_SHAPE_WARM_MAX]);

/* Makes a session for each of `slots` slots and warms it; the first one's times are written to `served`. */
enum pen_status warmup_run(struct served *served, uint32_t slots, struct pen_error *reterr);

/*
 * Behind a warm-up without helpers: what runs of the smallest size gain by those of the calling thread is taken off all times. Two runs instead of
 * three for each size: they are at the expense of those that are served.
 */
enum pen_status warmup_helped(struct served *served, struct pen_error *reterr);

#endif
