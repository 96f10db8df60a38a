/*
 * layers.h - the times of a run's layers, when a job asks for them (JobMeta.trace = 2).
 *
 * A layer is a step of the engine's plan: a node of the executor, or a partition that a backend runs as one.
 * Threads: one-at-a-time (a slot's).
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "job.pb-c.h"
#include "penstock/engine.h"
#include "tensor_codec.h"

#define LAYERS_MAX 256u /* per result */

struct layers {
    Penstock__LayerTime **rows; /* in the slot's arena */
    size_t count;
};

/* Measuring costs two clock readings per step, so it is on only for the run that a job asks about. */
void layers_begin(struct pen_session *session);
/* Copies the measured times and stops measuring; empty without memory. */
void layers_end(struct pen_session *session, struct meta_arena *arena, struct layers *ret_layers);

#endif
