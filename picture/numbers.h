/*
 * numbers.h - the last step: pixels into a model's numbers. Nobody outside of this folder includes this.
 *
 * Threads: any (no state).
 */
#ifndef PICTURE_NUMBERS_H
#define PICTURE_NUMBERS_H

#include "steps.h"

/* Fills element_bytes and the tables. */
void numbers_tables(struct picture_steps *steps, const struct picture_numbers *numbers);
/* pixels: [height, width, channels] of the steps; to: as many elements, in the model's layout. */
void numbers_write(const struct picture_steps *steps, const uint8_t *pixels, void *to);

#endif
