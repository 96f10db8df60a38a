/*
 * options.h - options of a backend as names and values: "xnnpack.joins=off,xnnpack.measure_ms=5". A backend lists its own (backend_ops.options); nothing outside
 * of its folder knows them.
 *
 * Threads: any (pure functions).
 */
#ifndef BACKEND_OPTIONS_H
#define BACKEND_OPTIONS_H

#include "backend/backend.h"

/* INVALID with a sentence for a name that no backend of this build has, which lists them, or a value that the option does not take. NULL is fine. */
enum pen_status backend_options_check(const char *text, struct pen_error *reterr);

/* The value of one of the backend's own options: a number, or that of the choice; the last one given counts. 0 for a name that the backend does not list. */
uint32_t backend_option(const struct backend_ops *ops, const struct backend_config *config, const char *name);

#endif
