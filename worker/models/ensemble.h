/*
 * ensemble.h - an ensemble on this worker: the worker runs it whole when it has all models of the steps; else it tells
 * the broker the plan, and the broker runs the steps.
 *
 * An ensemble is a `struct served` without a model of its own (config.plan is set). The models of its steps are looked
 * up each time, so they may come, go and be replaced like any others.
 * Threads: as each function says.
 */
#ifndef ENSEMBLE_H
#define ENSEMBLE_H

#include "catalog.h"

/* Makes an ensemble from its config, which it takes over, also on failure. `path`: of the config file. */
enum pen_status ensemble_new(const char *name, uint64_t version, const char *path, struct config *config,
                             struct served **ret_served, struct pen_error *reterr);

/*
 * The models of the steps as they are offered now, in the plan's order. NOT_FOUND: one is not here (yet); INVALID: they
 * do not fit together, and the sentence names the tensor and the step. Threads: those that build or watch the catalog;
 * the models are not held.
 */
enum pen_status ensemble_resolve(const struct catalog *catalog, const struct served *ensemble,
                                 struct served *ret_steps[ENSEMBLE_PLAN_STEPS_MAX], struct pen_error *reterr);

/* True when input `index` of the ensemble is the file of a picture: a step with crop cuts it. */
bool ensemble_takes_picture(const struct served *ensemble, size_t index);

/* Digest of the steps' models and of the links between them. Threads: any. */
struct digest ensemble_digest(const struct served *ensemble, struct served *const *steps);

/* Resolves all ensembles and logs what has changed: evt=ensemble_ready, ensemble_waits, model_failed. Threads: as ensemble_resolve. */
void ensembles_check(const struct catalog *catalog);

#endif
