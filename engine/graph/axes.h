/*
 * axes.h - which axes of a spatial operator's data are channels and which are space, by its layout.
 *
 * Threads: any (pure functions).
 */
#ifndef AXES_H
#define AXES_H

#include "graph/graph.h"

struct spatial_axes {
    int32_t count;   /* spatial axes: rank - 2 */
    int32_t channel; /* axis of the channels */
    int32_t first;   /* first spatial axis; the others follow */
};

/* By ATTR_layout (or channels_last of com.microsoft's quantised pools); false when rank is below 2 or above PEN_MAX_RANK. */
bool spatial_axes_of(const struct node *n, int32_t rank, struct spatial_axes *ret);

#endif
