/*
 * precision.h - the classes of arithmetic: their names, which of them this build and host offer, and which one a model computes in.
 *
 * Threads: any (pure functions; looking at a host opens and closes its drivers).
 */
#ifndef RUN_PRECISION_H
#define RUN_PRECISION_H

#include "backend/backend.h"

/* UNSUPPORTED, or INVALID where `name` is no class at all: a sentence with what there is instead. only: that backend is asked; NULL = all. */
enum pen_status precision_refuse(const struct pen_engine_options *options, const struct backend_ops *only,
                                 const char *name, struct pen_error *reterr);

/* PEN_PRECISION_INT8 where every product of the graph and of its subgraphs (without products: every value) is of integers, else `otherwise`. */
enum pen_precision precision_of(const struct graph *g, enum pen_precision otherwise);

/* UNSUPPORTED, with the first product of floats, where int8 is wanted and the graph is not of integers. */
enum pen_status precision_fits(const struct graph *g, enum pen_precision wanted, struct pen_error *reterr);

#endif
