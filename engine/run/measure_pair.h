/*
 * measure_pair.h - a model that is measured, and the same one on the reference backend.
 *
 * Threads: one-at-a-time; beside the model's other sessions.
 */
#ifndef MEASURE_PAIR_H
#define MEASURE_PAIR_H

#include "penstock/engine.h"

struct measure_pair {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session, *tried; /* on the reference; of the model itself */
};

/* Loads the model's file a second time. Give it back with fini in any case. */
enum pen_status measure_pair_init(struct measure_pair *pair, struct pen_model *model, struct pen_error *reterr);
void measure_pair_fini(struct measure_pair *pair);

#endif
