/*
 * across.h - rows of colour made narrower or wider, four source pixels at a time: AVX2, where the processor has it. Nobody outside of this folder includes this.
 *
 * A weight of 22 bits is split in a high and a low part, so that 16-bit multiply-adds give the same 32-bit sum.
 *
 * Threads: any (no state).
 */
#ifndef PICTURE_ACROSS_H
#define PICTURE_ACROSS_H

#include "taps.h"

bool across_here(void); /* does this processor have it? */
/* The weights in the order in which the loop reads them; free(). NULL without memory, or where across_here is false. */
int16_t *across_pack(const struct pixel_taps *taps);
uint64_t across_bytes(uint64_t target, uint64_t most); /* that across_pack takes */
/* from, to: rows of RGB; ROW_SPARE bytes behind `from` may be read. */
void across_run(const struct pixel_taps *taps, const int16_t *packed, const uint8_t *from, uint8_t *to);

#endif
