/*
 * measure.h - how far a model's answers are from those of the reference backend, and whether that keeps what its config.json states (`precision`).
 *
 * Measured on the files that config.json's `calibration` names, else on drawn inputs; the engine keeps the result beside the model (pen_model_measure).
 * Threads: recall, settle: one-at-a-time, before the model serves. run: any, beside slots; it publishes its result.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "served.h"
#include "warmup.h"

/* Takes what an earlier start has kept; of a model on the reference backend there is nothing to measure. */
void measure_recall(struct served *served);

/*
 * Measures it now. PEN_OK also when it was measured already. When it cannot be measured (random, texts, open dims) that is
 * its state from then on, and the sentence says why; after CANCELLED or DEADLINE it can be tried again.
 */
enum pen_status measure_run(struct served *served, const struct pen_stop *stop, struct pen_error *reterr);

/* What measure_recall does; then, where config.json states a precision, measures if need be. UNSUPPORTED: this worker does not keep it. */
enum pen_status measure_settle(struct served *served, struct pen_error *reterr);

/* What is drawn where there are no calibration files: the shapes of one row, and the ranges of the network's inputs (of files and of pixels). */
enum pen_status measure_drawn(const struct served *served, struct warm_shape *ret_shape,
                              struct pen_range ret_ranges[SERVED_TENSORS_MAX], struct pen_error *reterr);

/* False: there is none (yet), or it is an ensemble (measure_whole.h). Threads: any. */
bool measure_result(const struct served *served, struct pen_measured *ret_measured);

#endif
