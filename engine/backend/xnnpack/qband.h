/*
 * qband.h - convolutions of bytes whose windows are read where they lie: some rows of the image at a time are copied with their padding, and each output
 * pixel's row of the product is then a few runs of bytes at fixed distances. For processors with dot products of bytes.
 *
 * Threads: as qdense.h.
 */
#ifndef XNNPACK_QBAND_H
#define XNNPACK_QBAND_H

#include "backend/xnnpack/qdense.h"

/* Sets d->band from all else of d; panels: of the weights. */
void qband_init(struct qdense *d, size_t panels, size_t threads);
size_t qband_bytes(const struct qdense *d); /* of scratch memory for each thread; 0 where d->band.rows is 0 */
/* y: as qdense_run's. scratch: thread_bytes (at least qband_bytes) for each thread of the run. */
void qband_run(const struct qdense *d, const struct qgroups *groups, const uint8_t *x, void *y, uint8_t *scratch,
               size_t thread_bytes, struct run *r);

#endif
