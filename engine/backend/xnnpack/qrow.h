/*
 * qrow.h - rows of a product of bytes: the patch of an image under one position of a window, as the words that the product reads.
 *
 * Threads: any.
 */
#ifndef XNNPACK_QROW_H
#define XNNPACK_QROW_H

#include "backend/xnnpack/qdense.h"

/* Row `index` of x into d->words words: bytes without their sign (signed ones ^ 0x80), or 16-bit differences from the zero point where those are multiplied. */
void qrow_copy(const struct qdense *d, const uint8_t *x, size_t index, uint8_t *row);

#endif
