/*
 * measure_kept.h - errors that were measured, in the file beside the model (graph/memo.h), and the key under which they lie there.
 *
 * Threads: any.
 */
#ifndef MEASURE_KEPT_H
#define MEASURE_KEPT_H

#include "digest.h"
#include "run/internal.h"

/* All that decides a model's numbers beside its content and the engine's build: backend, device, library, what the processor has, placement, precision, flags. */
void measure_key_model(struct digest_stream *key, const struct pen_model *model);
/* count: inputs of a set. */
void measure_key_inputs(struct digest_stream *key, const struct pen_measure_inputs *inputs, size_t count);

/* False: it is not there, or broken. Counts what it finds (pen_measure_counts). */
bool measure_kept_find(const struct memo *memo, const struct digest *key, struct pen_measured *ret_measured);
/* False: it could not be kept. Counts what was measured. */
bool measure_kept_put(const struct memo *memo, const struct digest *key, const struct pen_measured *found);

#endif
