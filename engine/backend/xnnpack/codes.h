/*
 * codes.h - weights of floats that are codes of 8 bits times a scale, as importers say in value.quant: found again, and packed for qdense.h.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_CODES_H
#define XNNPACK_CODES_H

#include "backend/xnnpack/qdense.h"

/* Whether each weight is exactly a code of -127 to 127 times its scale. scales: 1, or one for each output channel. */
bool codes_are(const struct filter *f, const float *w, const float *scale, size_t scales);
size_t codes_packed_bytes(const struct filter *f);
/* Those weights for results of floats, of as few groups as qdense_merge makes of f's. False without memory. packed: [codes_packed_bytes(f)] */
bool codes_pack(const struct filter *f, const float *w, const float *scale, size_t scales, uint8_t *packed);

#endif
