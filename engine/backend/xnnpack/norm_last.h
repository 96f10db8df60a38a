/*
 * norm_last.h - InstanceNormalization with the channels last: x [batch, positions, channels], each channel of each batch entry by itself.
 *
 * Threads: any.
 */
#ifndef NORM_LAST_H
#define NORM_LAST_H

#include "backend/xnnpack/emit.h"

enum pen_status norm_last_build(struct build *b);

#endif
