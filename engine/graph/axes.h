/*
 * axes.h - which axes of a spatial operator's data are channels and which are space, by its layout; which axes a reduction drops.
 *
 * Threads: any (pure functions).
 */
#ifndef AXES_H
#define AXES_H

#include "graph/graph.h"
#include "graph/infer.h"

struct spatial_axes {
    int32_t count;   /* spatial axes: rank - 2 */
    int32_t channel; /* axis of the channels */
    int32_t first;   /* first spatial axis; the others follow */
};

/* By ATTR_layout (or channels_last of com.microsoft's quantised pools); false when rank is below 2 or above PEN_MAX_RANK. */
bool spatial_axes_of(const struct node *n, int32_t rank, struct spatial_axes *ret);

/*
 * Of a reduction, or of a global pool, which drops space: ret_gone[PEN_MAX_RANK] says which of the `rank` axes of its data go. axes: its second input, NULL = none. False
 * when an axis is out of range, or not known yet.
 */
bool reduced_axes_of(const struct node *n, const struct fact *axes, int32_t rank, bool *ret_gone);

#endif
