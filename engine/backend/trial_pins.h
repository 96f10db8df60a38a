/*
 * trial_pins.h - what a model's constants say about its dynamic input dims: the channels of an image, the features of a sequence, the side of an image whose
 * patches have stored positions.
 *
 * Threads: any (pure functions).
 */
#ifndef TRIAL_PINS_H
#define TRIAL_PINS_H

#include "graph/graph.h"

/* Sizes that inputs must have: ret_pins[input][dim], 0 where the model leaves it open. The caller zeroes it. Dims of one name have one size. */
void trial_pins(const struct graph *g, int64_t (*ret_pins)[PEN_MAX_RANK]);

/* Image sides that would give as many patches as there are stored positions; gives their number. */
size_t trial_sides(const struct graph *g, int64_t *ret_sides, size_t room);

#endif
